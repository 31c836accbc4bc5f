#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""`ddpbench comm` among ranks on several hosts, and its faults.

    tests/netlab/comm_test.py DDPBENCH [TEST...]

Exits with 77 (skipped) where there can be no hosts (lab.py).
"""

import signal
import unittest

import faults_test
import job
import netlab_test
from faults_test import DEADLINE_S, GRACE_S
from mpi_test import OWN_CODES, PATIENCE

# (launcher, backend, host of each rank); the last rank is hit.
WAYS = [("plain", "gloo", (0, 1)), ("plain", "shm+gloo", (0, 0, 1, 2)),
        ("mpirun", "mpi", (0, 1, 2)), ("mpirun", "shm+mpi", (0, 0, 1, 1))]
EVERY = ["--op=all", "--sizes=4K,256K", "--iterations=3", "--warmup=1", "--timeout=30"]
ENDLESS = ["--sizes=256K", "--iterations=100000", f"--timeout={DEADLINE_S}"]


def ways():
    here = [way for way in WAYS if way[0] == "plain" and netlab_test.has_backend("gloo")]
    return here + [way for way in WAYS if way[0] == "mpirun" and job.has_mpi()]


class Comm(unittest.TestCase):
    def setUp(self):
        if not ways():
            self.skipTest("neither --backend=gloo nor --backend=mpi is here")

    def job(self, launcher, backend, places, length):
        return job.Job(launcher, places, [f"--backend={backend}", *length], command="comm",
                       variables=PATIENCE if launcher == "mpirun" else None)

    def test_every_collective_is_right_between_hosts(self):
        def trial(*way):
            with self.job(*way, EVERY) as made:
                ended, _ = made.start().finish(within_s=90)
                for one in ended:
                    self.assertEqual(one.code, 0, one.text)
                report = made.report()
                hosts = [f"h{host}" for host in sorted(set(way[2]))]
                self.assertEqual(report["environment"]["hosts"], hosts)
                self.assertIn(f"on {len(hosts)} hosts ({', '.join(hosts)})", ended[0].text)
                self.assertEqual(len(report["collectives"]), 8 * 2 + 1)
                for row in report["collectives"]:
                    self.assertEqual((row["wrong"], row["ranks"]), (0, len(way[2])), row)
                    self.assertEqual((row["backend"], row["iterations"]), (way[1], 3), row)
                    self.assertIsNone(row["bound_busbw_gb_per_s"], row)
                self.assertEqual(made.left(), [])

        job.at_once(self, ways(), trial)

    def end_with(self, act, *way, without=()):
        """Hits the last rank or its host; the report names it."""
        last = len(way[2]) - 1
        with self.job(*way, ENDLESS) as made:
            made.start().await_work()
            act(made, last)
            plain = made.launcher == "plain"
            ended, took_s = made.finish([last] if plain and without else ())
            self.assertLess(took_s, DEADLINE_S + GRACE_S, made.said())
            self.assertIn(ended[0].code, [4] if plain else [4, 137, *OWN_CODES], ended[0].text)
            for agent in ended[1:]:
                self.assertEqual(agent.code, 0, agent.text)
            report = made.report()
            error = report["error"]
            self.assertEqual(report["status"], "failed", error)
            self.assertEqual((error["rank"], error["host"]), (last, f"h{way[2][last]}"), error)
            self.assertGreater(report["collectives"][0]["iterations"], 0)
            self.assertEqual(made.left(without), [])

    def test_a_rank_that_is_killed_is_named(self):
        def trial(*way):
            self.end_with(lambda made, last: made.signal_rank(last, signal.SIGKILL), *way)

        job.at_once(self, ways(), trial)

    def test_a_host_that_is_gone_is_named(self):
        host = WAYS[0][2][-1]
        if WAYS[0] in ways():
            self.end_with(lambda made, last: made.lab.end_host(host), *WAYS[0], without=[host])


if __name__ == "__main__":
    faults_test.main()
