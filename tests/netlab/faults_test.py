#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of ranks on several hosts: hosts that are gone, links that are cut, signals, a full disk.

    tests/netlab/faults_test.py DDPBENCH [TEST...]

Each job must end within its deadline and 5 s, name the first cause, and leave nothing: no process,
no port, no shared memory, no temporary file. Exits with 77 (skipped) where there can be no hosts
(lab.py). mpi_test.py does the same over MPI.
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

import job
import lab
import netlab_test

DEADLINE_S = 12
GRACE_S = 6  # mpirun that locks up in its own end is killed after 5
# Steps that cost little processor time, as many jobs run at once: a rank that is slow in its calls
# sleeps, in a phase it computes.
SLOW = "--inject=slow:rank=0,ms=10"
ENDLESS = ["--steps=100000", "--epochs=9999", "--verify-steps=0", f"--timeout={DEADLINE_S}", SLOW]
# About ten seconds: a step of ddp has one call, of ps three.
SHORT = {strategy: ["--steps=60", f"--epochs={epochs}", "--verify-steps=0", "--timeout=40",
                    SLOW.replace("10", "25")]
         for strategy, epochs in (("ddp", 7), ("ps", 3))}
# Each launcher, backend and strategy with each other in some; the last rank is hit. (launcher,
# backend, strategy, host of each rank)
WAYS = [("plain", "gloo", "ddp", (0, 1, 2)), ("plain", "shm+gloo", "ps", (0, 1, 1)),
        ("hosts", "gloo", "ps", (0, 1, 2)), ("hosts", "shm+gloo", "ddp", (0, 0, 1, 1))]


class Faults(unittest.TestCase):
    """What holds after a fault, whoever started the ranks and over whatever they talk."""

    def job(self, launcher, backend, strategy, places, length, **more):
        return job.Job(launcher, places, [f"--backend={backend}", f"--strategy={strategy}",
                                          *length], **more)

    def finish(self, made, gone=(), code=4, codes=None):
        """Waits for all processes of the job but those of ranks that are gone. Returns for how long,
        in seconds."""
        ended, took_s = made.finish(gone if made.launcher == "plain" else ())
        self.expect_codes(made, ended, codes or [code], 0 in gone)
        self.assertLess(took_s, DEADLINE_S + GRACE_S, made.said())
        return took_s

    def expect_codes(self, made, ended, codes, first_is_gone=False):
        """`codes`: of what supervises. The agents that it tells to end, end well."""
        for number, one in enumerate(ended):
            is_agent = made.launcher == "plain" and number > 0 and not first_is_gone
            self.assertIn(one.code, [0] if is_agent else codes, one.text)

    def train_through_a_cut(self, *way):
        """Cuts host 1 off for 3 seconds, which only delays the job."""
        with self.job(*way, SHORT[way[2]]) as made:
            made.start().await_work()
            made.lab.cut(1)
            time.sleep(3)
            made.lab.heal(1)
            ended, _ = made.finish(within_s=90)
            for one in ended:
                self.assertEqual(one.code, 0, one.text)
            report = made.report()
            self.assertEqual(report["status"], "ok")
            self.assertGreater(report["runs"][0]["step"]["time_s"]["max"], 2)
            self.expect_nothing_left(made)

    def run_two_jobs(self, *way, codes=None, variables=None):
        """Both on the same hosts. The first, which is hit when the second has ended, ends with one
        of `codes`."""
        with self.job(*way, ENDLESS, variables=variables) as first:
            first.start().await_work()
            length = ["--steps=30", "--verify-steps=2", "--timeout=30"]
            with self.job(*way, length, beside=first) as second:
                ended, _ = second.start().finish(within_s=60)
                for one in ended:
                    self.assertEqual(one.code, 0, one.text)
                run = second.report()["runs"][0]
                self.assertEqual(run["verification"]["status"], "passed")
                self.assertEqual(run["step"]["count"], 30)
            self.assertEqual(len(first.ranks()), len(way[3]), first.said())
            first.signal_rank(1, signal.SIGKILL)
            self.finish(first, codes=codes)
            self.expect_blame(first, 1, way[3][1])
            self.expect_nothing_left(first)

    def fill_the_disk(self, *way, codes):
        """That of rank 0, which cannot write its report. The processes end with `codes`."""
        length = ["--steps=60", "--epochs=10", "--verify-steps=0", "--timeout=30", SLOW]
        with self.job(*way, length, disk="1m") as made:
            made.start().await_work()
            inside = f"/proc/{made.ranks()[0]}/cwd"  # as the host sees it
            self.assertTrue(os.path.exists(f"{inside}/report.json"), "its name is taken")
            fill(f"{inside}/fill")
            ended, _ = made.finish(within_s=60)
            self.assertEqual([one.code for one in ended], codes, made.said())
            self.assertIn("report.json", ended[0].text)
            self.assertIn("No space left", ended[0].text)
            self.expect_nothing_left(made)

    def train_beside_half_open_connections(self, *way):
        """Connections of another host to the port of the job, which are there when it is cut off."""
        with self.job(*way, SHORT[way[2]], visitors=1) as made:
            made.start().await_work()
            code = ("import socket, time\n"
                    "sockets = []\n"
                    "for i in range(300):\n"
                    f"    s = socket.create_connection(('{made.lab.address(0)}', {job.PORT}), 5)\n"
                    "    if i % 3 == 1: s.send(b'\\xff\\xff')\n"
                    "    sockets.append(s)\n"
                    "print('open', flush=True)\n"
                    "time.sleep(600)\n")
            stranger = made.lab.start(made.visitor, [sys.executable, "-c", code],
                                      only_network=True, stdout=subprocess.PIPE)
            self.addCleanup(stranger.stdout.close)
            self.assertEqual(stranger.stdout.readline(), "open\n")
            made.lab.cut(made.visitor)
            ended, _ = made.finish(within_s=90)
            for one in ended:
                self.assertEqual(one.code, 0, one.text)
            self.assertEqual(made.report()["status"], "ok")
            stranger.kill()
            stranger.wait()
            self.expect_nothing_left(made)

    def expect_blame(self, made, rank, host, in_step=True, is_heard=True):
        """`is_heard`: the rank's records have reached the one that writes the report."""
        report = made.report()
        self.assertEqual(report["status"], "failed", report["error"])
        error = report["error"]
        self.assertEqual((error["rank"], error["host"]), (rank, f"h{host}"), error)
        run = report["runs"][0]
        if in_step:
            self.assertGreater(run["step"]["count"], 0, error)
            self.assertIn(f"rank {rank} on h{host}", error["message"])
            self.assertEqual([row["rank"] for row in run["calls"]], list(range(len(made.places))))
        if in_step and is_heard and rank < run["world_size"]:  # steps of servers are not counted
            self.assertGreater(error["step"], 0, error)
            # Between two steps, and in the barrier between two epochs, a rank is in no phase.
            self.assertTrue(error["phase"] or error["operation"], error)
        return report

    def expect_nothing_left(self, made, without=()):
        self.assertEqual(made.left(without), [])


class OverGloo(Faults):
    def setUp(self):
        if not netlab_test.has_backend("gloo"):
            self.skipTest("--backend=gloo is not here")

    def hit_last(self, way, act, gone_host=False):
        """A fault of the last rank, or of its host, during a long run."""
        places = way[3]
        last = len(places) - 1
        gone = [r for r in range(len(places)) if r == last or gone_host and places[r] == places[last]]
        with self.job(*way, ENDLESS) as made:
            made.start().await_work()
            act(made, last)
            self.finish(made, gone if gone_host else ())
            # Of a host that is gone, any of its ranks may be the first that is missed.
            report = made.report()
            rank = (report["error"] or {}).get("rank") if gone_host else last
            self.assertIn(rank, gone, report["error"])
            self.expect_blame(made, rank, places[last])
            self.expect_nothing_left(made, [places[last]] if gone_host else ())

    def test_a_rank_that_is_killed_is_named(self):
        job.at_once(self, WAYS, lambda *way: self.hit_last(
            way, lambda made, last: made.signal_rank(last, signal.SIGKILL)))

    def test_a_rank_that_is_stopped_is_named(self):
        job.at_once(self, WAYS, lambda *way: self.hit_last(
            way, lambda made, last: made.signal_rank(last, signal.SIGSTOP)))

    def test_a_rank_that_throws_is_named(self):
        def trial(*way):
            last = len(way[3]) - 1
            # Servers take no steps of their own.
            guilty = last if way[2] == "ddp" else 1
            with self.job(*way, [*ENDLESS, f"--inject=throw:rank={guilty},step=30"]) as made:
                made.start()
                ended, _ = made.finish(within_s=60)
                self.expect_codes(made, ended, [4])
                report = self.expect_blame(made, guilty, way[3][guilty], in_step=False)
                self.assertIn("planted by", report["error"]["message"])
                self.assertEqual(report["error"]["step"], 30)
                self.expect_nothing_left(made)

        job.at_once(self, WAYS, trial)

    def test_a_host_that_is_gone_is_named(self):
        job.at_once(self, WAYS, lambda *way: self.hit_last(
            way, lambda made, last: made.lab.end_host(way[3][last]), gone_host=True))

    # Nobody says that it ends: its connections stay half open.
    def test_a_host_that_loses_power_is_named_with_the_calls_of_all(self):
        with self.job(*WAYS[0], ENDLESS) as made:
            made.start().await_work()
            made.lab.cut(2)
            made.lab.end_host(2)
            self.finish(made, gone=[2])
            report = self.expect_blame(made, 2, 2)
            error, run = report["error"], report["runs"][0]
            self.assertEqual((error["operation"], error["bucket"]), ("all_reduce", 0), error)
            for row in run["calls"][:2]:
                self.assertEqual(row["pending"]["operation"], "all_reduce", row)
                self.assertEqual(row["pending"]["bucket"], 0)
            self.expect_nothing_left(made, without=[2])

    def test_the_host_of_rank_0_may_be_gone(self):
        def trial(power, *way):
            with self.job(*way, ENDLESS) as made:
                made.start().await_work()
                if power:
                    made.lab.cut(0)
                made.lab.end_host(0)
                self.finish(made, gone=[r for r, host in enumerate(way[3]) if host == 0])
                if way[0] == "plain":  # what supervised is gone
                    self.assertIn("the process of rank 0 has ended", made.said())
                    self.expect_nothing_left(made, without=[0])
                    return
                error = self.expect_blame(made, 0, 0, in_step=False)["error"]
                self.assertGreater(error["step"] or 0, 0, error)  # that of the others
                self.expect_nothing_left(made, without=[0])

        job.at_once(self, [(False, *way) for way in WAYS] + [(True, *WAYS[0])], trial)

    def test_a_link_that_heals_before_the_deadline_only_delays(self):
        job.at_once(self, WAYS, self.train_through_a_cut)

    def test_a_link_that_does_not_heal_in_time_ends_all_ranks(self):
        def trial(*way):
            with self.job(*way, ENDLESS) as made:
                made.start().await_work()
                made.lab.cut(way[3][-1])
                self.finish(made, gone=[r for r, host in enumerate(way[3]) if host == way[3][-1]])
                report = made.report()
                guilty = report["error"]["rank"]
                if way[0] == "hosts":  # all agents are heard, and both ends of the link wait alike
                    self.assertEqual(report["error"]["host"], f"h{way[3][guilty]}")
                    self.assertIn("deadline passed", report["error"]["message"])
                elif way[3][guilty] == way[3][-1]:
                    self.expect_blame(made, guilty, way[3][-1])
                else:  # a rank on this side of the link said first for whom it waited
                    message = report["error"]["message"]
                    waited = re.search(r"deadline passed while waiting for rank (\d+)", message)
                    self.assertTrue(waited, message)
                    self.assertEqual(way[3][int(waited[1])], way[3][-1], message)
                self.expect_nothing_left(made)

        job.at_once(self, WAYS, trial)

    def test_a_signal_to_the_supervisor_ends_all_as_interrupted(self):
        def trial(number, *way):
            with self.job(*way, ENDLESS) as made:
                made.start().await_work()
                made.signal(number)
                self.finish(made, code=130)
                report = made.report()
                self.assertEqual(report["status"], "interrupted")
                self.assertGreater(report["runs"][0]["step"]["count"], 0)
                self.expect_nothing_left(made)

        numbers = [signal.SIGTERM, signal.SIGINT]
        job.at_once(self, [(n, *way) for n, way in zip(numbers, WAYS[2:])], trial)

    def test_a_signal_to_an_agent_ends_all_as_interrupted(self):
        with self.job(*WAYS[0], ENDLESS) as made:
            made.start().await_work()
            os.kill(made.ranks(agents=True)[1], signal.SIGTERM)
            self.finish(made, code=130)
            self.assertEqual(made.report()["status"], "interrupted")
            self.expect_nothing_left(made)

    def test_two_jobs_on_the_same_hosts_do_not_meet(self):
        job.at_once(self, [WAYS[0], WAYS[2]], self.run_two_jobs)

    def test_a_full_disk_at_rank_0_loses_no_report(self):
        self.fill_the_disk(*WAYS[0], codes=[2, 0, 0])

    def test_connections_that_stay_half_open_disturb_nobody(self):
        self.train_beside_half_open_connections(*WAYS[0][:3], (0, 1))

    def test_a_rank_that_stalls_is_named_with_the_calls_of_all(self):
        with self.job(*WAYS[0], [*ENDLESS, "--inject=stall:rank=2,step=30"]) as made:
            ended, _ = made.start().await_work().finish(within_s=90)
            self.expect_codes(made, ended, [4])
            message = self.expect_blame(made, 2, 2, is_heard=False)["error"]["message"]
            self.assertIn("rank 2 on h2 stands still", message)
            self.expect_nothing_left(made)


def fill(path):
    """Writes until the file system is full."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for size in (4096, 1):
        try:
            while True:
                os.write(file, b"x" * size)
        except OSError:
            pass
    os.close(file)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    netlab_test.DDPBENCH = job.DDPBENCH = os.path.abspath(sys.argv.pop(1))
    why = lab.reason_to_skip()
    if why:
        print(f"skipped: {why}")
        sys.exit(netlab_test.SKIPPED)
    # Once for all tests.
    netlab_test.has_backend("gloo")
    job.has_mpi()
    unittest.main(testRunner=job.AtOnce())


if __name__ == "__main__":
    main()
