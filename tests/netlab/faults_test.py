#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of ranks on several hosts: hosts that are gone, links that are cut, signals.

    tests/netlab/faults_test.py DDPBENCH [TEST...]

Each job must end within its deadline and 5 s, name the first cause, and leave nothing. Exits with 77
(skipped) where there can be no hosts (lab.py).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import lab
import netlab_test

DEADLINE_S = 8
GRACE_S = 5
PORT = 29500
AT_WORK_S = 2.0  # of processor time
# At least 15 s, of which the ranks work for some.
SHORT = ["--steps=1500", "--verify-steps=0", "--timeout=40", "--inject=slow:rank=0,ms=10"]
ENDLESS = ["--steps=100000", "--epochs=50", "--verify-steps=0", f"--timeout={DEADLINE_S}"]


class Faults(netlab_test.NetLab):
    """Three hosts, each with a folder of its own."""

    HOSTS = 3

    def setUp(self):
        if not netlab_test.has_backend("gloo"):
            self.skipTest("--backend=gloo is not here")
        super().setUp()
        for host in range(self.HOSTS):
            os.mkdir(self.path(f"h{host}"))
            shutil.copy(self.path("lenet.json"), self.path(f"h{host}"))

    def folder_of(self, host):
        return self.path(f"h{host}")

    def report_of(self, host):
        with open(os.path.join(self.folder_of(host), "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def train(self, length=None, hosts=(0, 1, 2), work_s=AT_WORK_S):
        """Starts a long job and returns, once it trains, what waits for its ranks."""
        waits = self.world(list(hosts), ["--strategy=ddp", *(length or ENDLESS)])
        deadline = time.monotonic() + 120
        while not all(self.used_s(host) > work_s for host in hosts):
            self.assertLess(time.monotonic(), deadline, "the ranks did not come to work")
            time.sleep(0.1)
        time.sleep(1)  # so that rank 0 hears of it
        return waits

    def used_s(self, host):
        """The processor time of the ranks on a host: setting up takes far less than training."""
        used = 0
        for pid in self.lab.processes(host):
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used

    def finish(self, waits, gone=(), code=4):
        """Waits for all ranks but those on hosts that are gone."""
        begin = time.monotonic()
        ended = {}
        for rank, wait in enumerate(waits):
            if rank in gone:
                continue
            ended[rank] = wait(DEADLINE_S + 30)
            self.assertEqual(ended[rank].code, code, ended[rank].err)
        took = time.monotonic() - begin
        self.assertLess(took, DEADLINE_S + GRACE_S, {r: e.err for r, e in ended.items()})
        self.expect_nothing_left()
        return ended

    def expect_blame(self, rank, host):
        report = self.report_of(0)  # where rank 0 was to write it: the hosts share files
        self.assertEqual(report["status"], "failed")
        error = report["error"]
        self.assertEqual((error["rank"], error["host"]), (rank, host), error)
        self.assertIn(f"rank {rank} on {host}", error["message"])
        return report

    def test_a_host_that_is_gone_is_named(self):
        waits = self.train()
        self.lab.end_host(2)
        self.finish(waits, gone=[2])
        report = self.expect_blame(2, "h2")
        self.assertGreater(report["runs"][0]["step"]["count"], 0)

    # Nobody says that it ends: its connections stay half open.
    def test_a_host_that_loses_power_is_named(self):
        waits = self.train()
        self.lab.cut(2)
        self.lab.end_host(2)
        self.finish(waits, gone=[2])
        run = self.expect_blame(2, "h2")["runs"][0]
        self.assertEqual([row["rank"] for row in run["calls"]], [0, 1, 2])
        for row in run["calls"][:2]:
            self.assertEqual(row["pending"]["operation"], "all_reduce", row)
            self.assertEqual(row["pending"]["bucket"], 0)

    def test_the_host_of_rank_0_may_be_gone(self):
        waits = self.train()
        self.lab.end_host(0)
        self.finish(waits, gone=[0])
        self.expect_blame(0, "h0")

    def test_the_host_of_rank_0_may_lose_power(self):
        waits = self.train()
        self.lab.cut(0)
        self.lab.end_host(0)
        self.finish(waits, gone=[0])
        self.expect_blame(0, "h0")

    def test_a_link_that_heals_before_the_deadline_only_delays(self):
        waits = self.train(SHORT, work_s=1)
        self.lab.cut(1)
        time.sleep(3)
        self.lab.heal(1)
        for rank in [wait(120) for wait in waits]:
            self.assertEqual(rank.code, 0, rank.err)
        report = self.report_of(0)
        self.assertEqual(report["status"], "ok")
        self.assertGreater(report["runs"][0]["step"]["time_s"]["max"], 2)
        self.expect_nothing_left()

    def test_a_link_that_does_not_heal_in_time_ends_all_ranks(self):
        waits = self.train()
        self.lab.cut(1)
        self.finish(waits)
        self.lab.heal(1)
        self.expect_blame(1, "h1")

    def test_connections_that_stay_half_open_disturb_nobody(self):
        waits = self.train(SHORT, hosts=(0, 1), work_s=1)
        code = ("import resource, socket, time\n"
                "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
                "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))\n"
                "sockets = []\n"
                "for i in range(2000):\n"  # more than rank 0 may have open
                f"    s = socket.create_connection(('{self.lab.address(0)}', {PORT}), 5)\n"
                "    try:\n"
                "        if i % 3 == 1: s.send(b'\\xff\\xff')\n"
                "    except OSError: pass\n"  # it was dropped
                "    sockets.append(s)\n"
                "print('open', flush=True)\n"
                "time.sleep(600)\n")
        stranger = self.lab.start(2, [sys.executable, "-c", code], stdout=subprocess.PIPE)
        self.addCleanup(stranger.stdout.close)
        self.assertEqual(stranger.stdout.readline(), "open\n")
        self.lab.cut(2)
        for rank in [wait(120) for wait in waits]:
            self.assertEqual(rank.code, 0, rank.err)
        self.assertEqual(self.report_of(0)["status"], "ok")
        stranger.kill()
        stranger.wait()

    def test_a_rank_that_stalls_is_named_with_the_calls_of_all(self):
        waits = self.world([0, 1, 2], ["--strategy=ddp", *ENDLESS, "--inject=stall:rank=2,step=30"])
        for rank in [wait(120) for wait in waits]:
            self.assertEqual(rank.code, 4, rank.err)
        message = self.expect_blame(2, "h2")["error"]["message"]
        self.assertRegex(message, r"rank 2 on h2 is behind all_reduce \d+ \(bucket 0\), "
                                  r"the others wait in all_reduce \d+ \(bucket 0\)")
        self.expect_nothing_left()

    def test_a_signal_to_one_rank_ends_all_as_interrupted(self):
        waits = self.train()
        for pid in self.lab.processes(1):
            os.kill(pid, signal.SIGTERM)
        self.finish(waits, code=130)
        report = self.report_of(0)
        self.assertEqual(report["status"], "interrupted")
        self.assertEqual((report["error"]["rank"], report["error"]["host"]), (1, "h1"))
        self.assertEqual(report["error"]["signal"], signal.SIGTERM)

    # mpirun hands the signal on to its ranks, and kills those that are still there seconds later.
    def test_a_signal_to_mpirun_ends_all_as_interrupted(self):
        if not has_mpi():
            self.skipTest("--backend=mpi or mpirun is not here")
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "TMPDIR": self.folder,
                       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # Open MPI 5
                       # Ranks that share cores with other tests need longer than its 1 s.
                       "OMPI_MCA_odls_base_sigkill_timeout": "5"}
        with open(self.path("said"), "w+", encoding="utf-8") as said:
            job = self.lab.start(
                0, [mpirun(), "-n", "3", netlab_test.DDPBENCH, "--config=lenet.json",
                    f"--data-dir={self.folder}", "--json=report.json", "--strategy=ddp",
                    "--backend=mpi", *ENDLESS],
                environment, cwd=self.folder_of(0), stdout=said, stderr=said)
            deadline = time.monotonic() + 120
            while self.used_s(0) < 3 * AT_WORK_S and time.monotonic() < deadline:
                time.sleep(0.1)
            for pid in self.lab.processes(0, "mpirun"):
                os.kill(pid, signal.SIGTERM)
            begin = time.monotonic()
            code = job.wait(DEADLINE_S + 30)
            said.seek(0)
            self.assertNotEqual(code, 0)
            self.assertLess(time.monotonic() - begin, DEADLINE_S + GRACE_S, said.read())
        report = self.report_of(0)
        self.assertEqual(report["status"], "interrupted", report["error"])
        self.assertEqual(report["error"]["signal"], signal.SIGTERM)
        self.assertGreater(report["runs"][0]["step"]["count"], 0)
        self.expect_nothing_left()
        self.assertEqual(self.lab.processes(0, "mpirun"), [])


def mpirun():
    """Its path: it takes what is above its folder for its prefix, and refuses "/"."""
    found = shutil.which("mpirun")
    return found and os.path.join(os.path.realpath(os.path.dirname(found)), "mpirun")


def has_mpi():
    listed = subprocess.run([netlab_test.DDPBENCH, "info"], capture_output=True, text=True,
                            timeout=60).stdout
    return mpirun() is not None and "Open MPI" in listed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    netlab_test.DDPBENCH = os.path.abspath(sys.argv.pop(1))
    why = lab.reason_to_skip()
    if why:
        print(f"skipped: {why}")
        sys.exit(netlab_test.SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
