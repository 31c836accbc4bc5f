#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks on hosts that share nothing but a network (lab.py).

    tests/netlab/netlab_test.py DDPBENCH [TEST...]

Exits with 77 (skipped) where there can be no such hosts.
"""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import digits
import job
import lab

SKIPPED = 77
DDPBENCH = ""
SECRET = "0123456789abcdef0123456789abcdef"
TIMEOUT_S = 20
CONFIG = {"model": "lenet5", "dataset": {"name": "mnist"}, "batch_size": 8, "epochs": 1,
          "steps": 6, "warmup_steps": 1, "warmup_max_steps": 1, "verify_steps": 2,
          "timeout": TIMEOUT_S}


@functools.cache
def has_backend(name):
    """Whether the program has a backend that works here."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [DDPBENCH, "comm", "--op=barrier", f"--backend={name}", "--iterations=1",
             f"--json={folder}/comm.json"], capture_output=True, text=True, timeout=120)
    return done.returncode == 0


# Holds the ports that rank 0's store may take, and accepts nobody.
HOLD_PORTS = """
import socket, sys, time
held = [socket.create_server((sys.argv[1], port)) for port in range(29500, 29516)]
print("held", flush=True)
time.sleep(600)
"""


class Ended:
    """What a rank said, and how it ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


class NetLab(unittest.TestCase):
    HOSTS = 2
    AHEAD_S = None  # [host] by how much its clock is ahead

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="netlab-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.lab = lab.Lab(self.HOSTS, ahead_s=self.AHEAD_S)
        self.addCleanup(self.lab.end)
        with open(self.path("lenet.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        digits.write_digits(self.path("mnist"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def folder_of(self, host):
        """Where the ranks of a host run."""
        del host
        return self.folder

    def start(self, rank, host, variables, arguments):
        # Files, because a pipe that nobody reads would hold a rank up.
        out, err = (open(self.path(f"{kind}.{rank}"), "w+", encoding="utf-8")
                    for kind in ("out", "err"))
        self.addCleanup(out.close)
        self.addCleanup(err.close)
        process = self.lab.start(
            host, [DDPBENCH, "--config=lenet.json", f"--data-dir={self.folder}",
                   "--json=report.json", *arguments],
            variables, cwd=self.folder_of(host), stdout=out, stderr=err, stdin=subprocess.DEVNULL)

        def finish(within_s=120):
            try:
                code = process.wait(within_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            for file in (out, err):
                file.flush()
                file.seek(0)
            return Ended(code, out.read(), err.read())
        return finish

    def world(self, hosts, arguments, secret=SECRET):
        """Starts rank r on host hosts[r]. Returns the functions that wait for them."""
        variables = lab.rank_variables(self.lab, hosts, secret)
        return [self.start(rank, host, variables[rank], arguments)
                for rank, host in enumerate(hosts)]

    def report(self):
        with open(self.path("report.json"), encoding="utf-8") as file:
            return json.load(file)

    def expect_nothing_left(self):
        deadline = time.monotonic() + 5
        left = True
        while left and time.monotonic() < deadline:
            left = [each for host in range(self.HOSTS) for each in self.lab.left(host)]
            time.sleep(0.05)
        self.assertFalse(left)


class TwoHosts(NetLab):
    def test_shared_memory_is_refused_with_both_hosts_and_another_backend(self):
        first, agent = [wait() for wait in
                        self.world([0, 1], ["--strategy=ddp", "--backend=shm"])]
        self.assertEqual((first.code, agent.code), (2, 0), first.err + agent.err)
        self.assertIn("h0 (rank 0), h1 (rank 1)", first.err)
        self.assertIn("--backend=gloo", first.err)
        self.assertFalse(os.path.exists(self.path("report.json")))
        self.expect_nothing_left()

    def test_ranks_of_one_of_the_hosts_use_shared_memory(self):
        for rank in [wait() for wait in self.world([1, 1], ["--strategy=ddp"])]:
            self.assertEqual(rank.code, 0, rank.err)
        report = self.report()
        self.assertEqual(report["environment"]["hosts"], ["h1"])
        self.assertEqual(report["runs"][0]["backend"], "shm")
        self.assertEqual(report["runs"][0]["verification"]["status"], "passed")

    def test_a_rank_without_the_secret_is_told_the_line_to_add(self):
        variables = lab.rank_variables(self.lab, [0, 1], "")
        rank = self.start(1, 1, variables[1], ["--strategy=ddp"])()
        self.assertEqual(rank.code, 2, rank.err)
        self.assertIn("export DDPBENCH_JOB_SECRET=", rank.err)

    def test_an_interface_needs_a_secret_and_must_be_there(self):
        variables = lab.rank_variables(self.lab, [0, 1], "")
        rank = self.start(0, 0, variables[0], ["--strategy=ddp", "--interface=eth0"])()
        self.assertEqual(rank.code, 2, rank.err)
        self.assertIn("export DDPBENCH_JOB_SECRET=", rank.err)
        variables = lab.rank_variables(self.lab, [0, 1], SECRET)
        rank = self.start(0, 0, variables[0], ["--strategy=ddp", "--interface=eth7"])()
        self.assertEqual(rank.code, 2, rank.err)
        self.assertIn("eth0 (10.77.0.1)", rank.err)

    def listens(self, host, address, port):
        """Whether a connection from `host` is taken."""
        code = ("import socket, sys\n"
                "s = socket.socket(); s.settimeout(2)\n"
                f"sys.exit(0 if s.connect_ex(('{address}', {port})) == 0 else 1)")
        return self.lab.start(host, [sys.executable, "-c", code]).wait() == 0

    def test_a_stranger_neither_gets_in_nor_stops_the_job(self):
        variables = lab.rank_variables(self.lab, [0, 0], SECRET)
        first = self.start(0, 0, variables[0], ["--strategy=ddp", "--interface=eth0"])
        deadline = time.monotonic() + 10
        while not self.listens(1, self.lab.address(0), 29500) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(self.listens(1, self.lab.address(0), 29500))
        self.assertFalse(self.listens(0, "127.0.0.1", 29500), "asked to listen on eth0 alone")
        wrong = {**variables[1], "DDPBENCH_JOB_SECRET": "x" * 32, "LOCAL_RANK": "0"}
        stranger = self.start(2, 1, wrong, ["--strategy=ddp", "--timeout=2"])()
        self.assertEqual(stranger.code, 4, stranger.err)
        self.assertIn("refuses our secret", stranger.err)
        second = self.start(1, 0, variables[1], ["--strategy=ddp"])
        for rank in (first(), second()):
            self.assertEqual(rank.code, 0, rank.err)
        self.assertEqual(self.report()["runs"][0]["verification"]["status"], "passed")


class OverGloo(NetLab):
    """Runs over two and four hosts. Skipped where the program has no backend that spans them."""

    HOSTS = 4

    def setUp(self):
        if not has_backend("gloo"):
            self.skipTest("--backend=gloo is not here")
        super().setUp()

    def expect_verified(self, hosts, arguments, backend="gloo"):
        for rank in [wait() for wait in self.world(hosts, arguments)]:
            self.assertEqual(rank.code, 0, rank.err)
        report = self.report()
        os.remove(self.path("report.json"))
        run = report["runs"][0]
        self.assertEqual(run["backend"], backend)
        self.assertEqual(run["verification"]["status"], "passed")
        self.assertEqual(run["step"]["count"], CONFIG["steps"])
        self.assertEqual(report["environment"]["hosts"],
                         [f"h{host}" for host in sorted(set(hosts))])
        self.assertEqual([device["host"] for device in run["devices"]],
                         [f"h{host}" for host in hosts])
        for device in run["devices"]:
            if device["role"] == "worker":
                self.assertIsInstance(device["step_time_median_s"], float)
        self.expect_nothing_left()

    def test_ddp_is_verified_on_two_and_four_hosts(self):
        self.expect_verified([0, 1], ["--strategy=ddp"])
        self.expect_verified([0, 1, 2, 3], ["--strategy=ddp", "--backend=gloo"])

    def test_ps_is_verified_on_two_and_four_hosts(self):
        self.expect_verified([0, 1, 1], ["--strategy=ps"])
        self.expect_verified([0, 1, 2, 3], ["--strategy=ps", "--servers=2"])

    def test_shared_memory_within_hosts_and_gloo_between_them(self):
        for hosts in ([0, 0, 1, 1], [0, 1, 0]):
            self.expect_verified(hosts, ["--strategy=ddp", "--backend=shm+gloo"], "shm+gloo")


class Clocks(NetLab):
    """Hosts whose clocks are far apart, by a difference that the test knows: they are time namespaces
    of one kernel, whose clocks do not drift."""

    HOSTS = 3
    AHEAD_S = [500, 7000, 0]

    def setUp(self):
        if not has_backend("gloo"):
            self.skipTest("--backend=gloo is not here")
        try:
            super().setUp()
        except RuntimeError as error:
            self.skipTest(f"no time namespaces here: {error}")

    def test_all_hosts_are_on_one_clock(self):
        # Rank 2 is so slow that the others' own work stays small beside it on a busy machine, too.
        arguments = ["--strategy=ddp", "--inject=slow:rank=2,phase=backward,percent=10000",
                     "--trace=trace.json", "--trace-steps=3"]
        for rank in [wait() for wait in self.world([0, 1, 2], arguments)]:
            self.assertEqual(rank.code, 0, rank.err)
        run = self.report()["runs"][0]
        with self.subTest("offsets are known within their bounds"):
            self.expect_offsets(run["clocks"])
        with self.subTest("times"):
            self.expect_times(run)
        with self.subTest("the trace"):
            self.expect_trace()

    def expect_offsets(self, clocks):
        self.assertEqual([clock["host"] for clock in clocks], ["h0", "h1", "h2"])
        self.assertEqual([clocks[0][key] for key in ("offset_s", "bound_s", "drift_s")], [0, 0, 0])
        for clock, offset in zip(clocks[1:], (6500, -500)):
            self.assertLess(clock["bound_s"], 0.05)
            self.assertLessEqual(abs(clock["offset_s"] - offset), clock["bound_s"])
            self.assertLessEqual(abs(clock["drift_s"]), 2 * clock["bound_s"])

    def expect_times(self, run):
        step = run["step"]["time_s"]["median"]
        # Without correction an epoch would last as long as the clocks are apart.
        self.assertLess(run["epochs"][0]["time_s"], 60)
        waiting, straggler = run["devices"][0]["phases"], run["devices"][2]["phases"]
        self.assertGreater(waiting["comm_wait_s"], 0.3 * step, run["clocks"])
        self.assertLess(waiting["comm_s"], 0.6 * step)
        if straggler["comm_wait_s"] is None:
            self.assertIn("clocks of the hosts", straggler["comm_wait_s_reason"])
        else:
            self.assertLess(straggler["comm_wait_s"], 0.2 * step)

    def expect_trace(self):
        with open(self.path("trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        ends = {}
        for event in trace["traceEvents"]:
            if event.get("name") == "step 2":
                ends[event["pid"]] = event["ts"] + event["dur"]
        self.assertEqual(len(ends), 3)
        # The update ends on all at about the same time: none can begin before the last all-reduce.
        self.assertLess(max(ends.values()) - min(ends.values()), 1e6)
        told = [text for key, text in trace["otherData"].items() if key.startswith("clocks of")]
        self.assertEqual(len(told), 1)
        self.assertIn("compare within", told[0])


class FromOneCommand(NetLab):
    """ddpbench --hosts, started outside of all hosts: only the remote shell reaches them."""

    HOSTS = 4

    def setUp(self):
        if not has_backend("gloo"):
            self.skipTest("--backend=gloo is not here")
        super().setUp()
        self.lab.write_shell(self.path("shell"))

    def command(self, slots, arguments, hosts=None):
        names = hosts or [self.lab.address(i) for i in range(2)]
        listed = ",".join(f"{name}:{slots}" for name in names)
        with open(self.path("said"), "w", encoding="utf-8") as said:
            return subprocess.Popen(
                [DDPBENCH, "--config=lenet.json", f"--data-dir={self.folder}",
                 "--json=report.json", f"--hosts={listed}",
                 f"--remote-shell={self.path('shell')}", *arguments],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                preexec_fn=lab.die_with_parent)

    def said(self):
        with open(self.path("said"), encoding="utf-8") as file:
            return file.read()

    def test_one_report_has_the_whole_matrix_over_two_hosts(self):
        done = self.command(2, ["--strategy=single,ddp,ps", "--gpus=1,2,4", "--steps=3"])
        self.assertEqual(done.wait(400), 0, self.said())
        report = self.report()
        self.assertEqual(report["status"], "ok")
        self.assertEqual(report["environment"]["hosts"], ["h0", "h1"])
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
            self.assertEqual(report["environment"]["tcp_congestion_control"], file.read().strip())
        runs = report["runs"]
        self.assertEqual([(run["strategy"], run["world_size"]) for run in runs],
                         [("single", 1), ("ddp", 1), ("ddp", 2), ("ddp", 4),
                          ("ps", 1), ("ps", 2), ("ps", 4)])
        for run in runs:
            self.assertEqual(run["status"], "ok")
            self.assertEqual(run["verification"]["status"],
                             "reference" if run["strategy"] == "single" else "passed")
        self.assertEqual(runs[2]["backend"], "shm")  # on one host
        self.assertEqual(runs[3]["backend"], "gloo")
        self.assertEqual([device["host"] for device in runs[3]["devices"]],
                         ["h0", "h0", "h1", "h1"])
        self.assertEqual([device["host"] for device in runs[6]["devices"]],
                         ["h0", "h0", "h1", "h1", "h0"])
        self.expect_nothing_left()

    def test_four_hosts_from_a_host_file(self):
        with open(self.path("hosts"), "w", encoding="utf-8") as file:
            file.writelines(f"{self.lab.address(i)} slots=1  # h{i}\n" for i in range(4))
        with open(self.path("said"), "w", encoding="utf-8") as said:
            code = subprocess.call(
                [DDPBENCH, "--config=lenet.json", f"--data-dir={self.folder}",
                 "--json=report.json", "--hostfile=hosts", "--remote-shell=./shell",
                 "--strategy=ddp,ps", "--gpus=4", "--servers=2", "--steps=3",
                 "--trace=trace.json"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=200)
        self.assertEqual(code, 0, self.said())
        self.expect_one_trace({"ddp on 4 devices": 4, "ps on 4 devices and 2 servers": 6})
        ddp, ps = self.report()["runs"]
        for run in (ddp, ps):
            self.assertEqual(run["verification"]["status"], "passed")
            self.assertEqual(run["backend"], "gloo")
        self.assertEqual([device["host"] for device in ps["devices"]],
                         ["h0", "h1", "h2", "h3", "h0", "h1"])
        self.expect_nothing_left()

    def expect_one_trace(self, ranks):
        """It has so many ranks of each run, all on one clock."""
        with open(self.path("trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        names = [event["args"]["name"] for event in trace["traceEvents"]
                 if event["name"] == "process_name"]
        for title, count in ranks.items():
            self.assertEqual(sum(name.startswith(title + ", rank ") for name in names), count)
            self.assertIn("compare within", trace["otherData"]["clocks of " + title])

    def test_shared_memory_is_refused_before_anything_runs(self):
        done = self.command(1, ["--strategy=ddp", "--gpus=2", "--backend=shm"])
        self.assertEqual(done.wait(60), 2)
        self.assertIn("h0 (rank 0), h1 (rank 1)", self.said())
        self.assertFalse(os.path.exists(self.path("report.json")))

    def test_a_lost_connection_to_an_agent_is_told_with_the_rank_that_it_cost(self):
        done = self.command(1, ["--strategy=ddp", "--gpus=2", "--epochs=9999", "--steps=20000",
                                "--timeout=5"])
        until = time.monotonic() + 30
        while len(self.lab.processes(1, None)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(2.5)
        for pid in self.lab.processes(1, None):  # the agent and its rank
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(done.wait(30), 4, self.said())
        error = self.report()["runs"][0]["error"]
        self.assertEqual((error["rank"], error["host"]), (1, "h1"), error)
        self.assertIn(f"host {self.lab.address(1)}: ", error["message"])
        self.expect_nothing_left()

    def test_silent_listeners_on_all_ports_of_rank_0_do_not_hide_its_host(self):
        held = self.lab.start(0, [sys.executable, "-c", HOLD_PORTS, self.lab.address(0)],
                              stdout=subprocess.PIPE, only_network=True)
        held.stdout.readline()
        begin = time.monotonic()
        done = self.command(1, ["--strategy=ddp", "--gpus=2", "--timeout=4"])
        self.assertEqual(done.wait(60), 4, self.said())
        self.assertLess(time.monotonic() - begin, 4 + 8)
        error = self.report()["runs"][0]["error"]
        self.assertIn(f"host {self.lab.address(0)}: store: cannot listen", error["message"])
        held.kill()
        held.wait()
        held.stdout.close()
        self.expect_nothing_left()

    def test_a_host_that_cannot_be_reached_is_named(self):
        done = self.command(1, ["--strategy=ddp", "--gpus=2"],
                            [self.lab.address(0), "10.77.0.99"])
        self.assertEqual(done.wait(60), 4)
        self.assertIn("host 10.77.0.99: it cannot be used", self.said())
        self.assertIn("no way to 10.77.0.99", self.said())
        self.expect_nothing_left()


class Laboratory(unittest.TestCase):
    def test_leaves_nothing_when_it_is_killed(self):
        folder = os.path.dirname(os.path.abspath(__file__))
        code = (f"import sys, time; sys.path.insert(0, {folder!r}); import lab\n"
                "made = lab.Lab(2)\n"
                "print(*[h.pid for h in made.hosts], made.switch.pid, flush=True)\n"
                "time.sleep(60)")
        made = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        pids = [int(pid) for pid in made.stdout.readline().split()]
        self.assertEqual(len(pids), 3)
        self.assertTrue(all(os.path.exists(f"/proc/{pid}") for pid in pids))
        made.kill()
        made.wait()
        made.stdout.close()
        deadline = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), deadline, "a host outlives its laboratory")
            time.sleep(0.02)

    def test_shares_only_the_network(self):
        with lab.Lab(2) as made:
            names = [made.start(i, ["hostname"], stdout=subprocess.PIPE).communicate()[0].strip()
                     for i in range(2)]
            self.assertEqual(names, ["h0", "h1"])
            self.assertNotEqual(socket.gethostname(), "h0")
            seen = made.start(0, ["sh", "-c", "ls -d /proc/[0-9]* | wc -l"],
                              stdout=subprocess.PIPE).communicate()[0]
            self.assertLess(int(seen), 10)

    def output(self, made, host, command):
        return made.start(host, command, stdout=subprocess.PIPE).communicate()[0]

    def test_links_have_the_rates_and_the_frames_that_were_asked_for(self):
        with lab.Lab(3, rate=["1gbit", "100mbit", None], mtu=9000) as made:
            shaped = [self.output(made, i, ["tc", "qdisc", "show", "dev", "eth0"])
                      for i in range(3)]
            self.assertIn("mtu 9000 ", self.output(made, 2, ["ip", "link", "show", "eth0"]))
        self.assertIn("rate 1Gbit", shaped[0])
        self.assertIn("rate 100Mbit", shaped[1])
        self.assertNotIn("rate", shaped[2])

    def test_connections_have_the_congestion_control_that_was_asked_for(self):
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
            names = file.read().split()
        serve = ("import socket; s = socket.socket(); s.bind(('', 5000)); s.listen(1)\n"
                 "print('up', flush=True); c, _ = s.accept(); c.send(b'x')\n"
                 "print(c.getsockopt(6, 13, 16).rstrip(b'\\0').decode())")
        for name in names:
            with self.subTest(name), lab.Lab(2, congestion_control=name) as made:
                call = (f"import socket; c = socket.create_connection(('{made.address(0)}', 5000))\n"
                        "c.recv(1); print(c.getsockopt(6, 13, 16).rstrip(b'\\0').decode())")
                server = made.start(0, [sys.executable, "-c", serve], stdout=subprocess.PIPE)
                self.assertEqual(server.stdout.readline(), "up\n")
                self.assertEqual(self.output(made, 1, [sys.executable, "-c", call]).strip(), name)
                self.assertEqual(server.communicate()[0].strip(), name)

    def test_an_unknown_congestion_control_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "nosuch"):
            lab.Lab(1, congestion_control="nosuch")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DDPBENCH = os.path.abspath(sys.argv.pop(1))
    WHY = lab.reason_to_skip()
    if WHY:
        print(f"skipped: {WHY}")
        sys.exit(SKIPPED)
    has_backend("gloo")  # once for all tests
    unittest.main(testRunner=job.AtOnce(2))
