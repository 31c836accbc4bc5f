#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts over MPI, by mpirun itself and by --launcher=mpirun, and their faults.

    tests/netlab/mpi_test.py DDPBENCH [TEST...]

What does not depend on how bytes travel (faults_test.py has it) is not repeated. Exits with 77
(skipped) where there can be no hosts (lab.py).
"""

import signal
import time

import faults_test
import job
from faults_test import DEADLINE_S, ENDLESS

# (launcher, backend, strategy, host of each rank); the last rank is hit.
ONE_EACH = (0, 1, 2)
WAYS = [("mpirun", "mpi", "ddp", ONE_EACH), ("mpirun", "shm+mpi", "ps", (0, 1, 1)),
        ("supervised-mpirun", "mpi", "ps", ONE_EACH),
        ("supervised-mpirun", "shm+mpi", "ddp", (0, 0, 1, 1))]
# What mpirun ends with: 128 and a signal, the code of a rank, or one of its own.
OWN_CODES = [1, 4, 9, 205]


# mpirun kills ranks that have not ended a second after it asked them to, with their report or without.
# Those that share cores with other tests need longer. Below a supervisor they have it. A stopped rank
# uses it up, more than once, so that trials with such a rank do without.
PATIENCE = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}


def codes_of(way, own):
    return [4] if way[0] == "supervised-mpirun" else own


class OverMpi(faults_test.Faults):
    def setUp(self):
        if not job.has_mpi():
            self.skipTest("--backend=mpi or mpirun is not here")

    def test_ddp_and_ps_are_verified_on_two_and_four_hosts(self):
        def trial(*way):
            places = way[3]
            length = ["--steps=6", "--warmup-steps=1", "--verify-steps=2", "--timeout=30"]
            with self.job(*way, length) as made:
                ended, _ = made.start().finish(within_s=90)
                self.assertEqual(ended[0].code, 0, ended[0].text)
                report = made.report()
                run = report["runs"][0]
                self.assertEqual(run["backend"], way[1])
                self.assertEqual(run["verification"]["status"], "passed")
                self.assertEqual(run["step"]["count"], 6)
                self.assertEqual([device["host"] for device in run["devices"]],
                                 [f"h{host}" for host in places])
                self.assertEqual(made.left(), [])

        job.at_once(self, [("mpirun", "mpi", "ddp", (0, 1)),
                           ("mpirun", "shm+mpi", "ps", (0, 1, 1)),
                           ("supervised-mpirun", "mpi", "ps", (0, 1, 2, 3)),
                           ("supervised-mpirun", "shm+mpi", "ddp", (0, 0, 1, 1))], trial)

    def hit(self, way, act, own_codes, in_step=True, gone=(), variables=PATIENCE):
        """`gone`: hosts that the fault takes away. `variables`: where mpirun has no supervisor.
        Returns the report's error."""
        places = way[3]
        with self.job(*way, ENDLESS, variables=variables if way[0] == "mpirun" else None) as made:
            made.start().await_work()
            act(made, len(places) - 1)
            self.finish(made, codes=codes_of(way, own_codes))
            report = made.report()
            guilty = len(places) - 1
            if gone:  # any of its ranks may be the first that is missed
                guilty = (report["error"] or {}).get("rank")
                self.assertIn(guilty, [r for r, host in enumerate(places) if host in gone],
                              report["error"])
            self.expect_blame(made, guilty, places[guilty], in_step=in_step)
            self.expect_nothing_left(made, without=gone)
            return report["error"]

    def test_a_rank_that_is_killed_is_named(self):
        job.at_once(self, WAYS, lambda *way: self.hit(
            way, lambda made, last: made.signal_rank(last, signal.SIGKILL), OWN_CODES))

    # Not with ps below a supervised mpirun: when mpirun lets a stopped server go on, the workers, which
    # only missed it, are named now and then.
    def test_a_rank_that_is_stopped_is_named(self):
        ways = [way for way in WAYS if way[:3] != ("supervised-mpirun", "mpi", "ps")]
        job.at_once(self, ways, lambda *way: self.hit(
            way, lambda made, last: made.signal_rank(last, signal.SIGSTOP), OWN_CODES,
            variables=None))

    def test_a_host_that_is_gone_is_named(self):
        job.at_once(self, WAYS, lambda *way: self.hit(
            way, lambda made, last: made.lab.end_host(way[3][last]), OWN_CODES,
            gone=[way[3][-1]]))

    def test_the_host_of_rank_0_may_be_gone(self):
        def trial(*way):
            error = self.hit(way, lambda made, last: made.lab.end_host(0), OWN_CODES, in_step=False,
                             gone=[0])
            self.assertGreater(error["step"] or 0, 0, error)  # that of the others

        job.at_once(self, [way for way in WAYS if way[0] == "supervised-mpirun"], trial)

    def test_two_jobs_on_the_same_hosts_do_not_meet(self):
        def trial(*way):
            self.run_two_jobs(*way, codes=codes_of(way, OWN_CODES),
                              variables=PATIENCE if way[0] == "mpirun" else None)

        job.at_once(self, [WAYS[0], WAYS[2]], trial)

    def test_a_link_that_heals_before_the_deadline_only_delays(self):
        job.at_once(self, [WAYS[0], WAYS[3]], self.train_through_a_cut)

    def test_a_link_that_does_not_heal_in_time_ends_all_ranks(self):
        def trial(*way):
            with self.job(*way, ENDLESS) as made:
                made.start().await_work()
                made.lab.cut(way[3][-1])
                took_s = self.finish(made)
                report = made.report()
                guilty = (report["error"] or {}).get("rank")
                self.assertEqual(way[3][guilty], way[3][-1], report["error"])
                self.expect_blame(made, guilty, way[3][-1])
                end = time.monotonic() + DEADLINE_S + faults_test.GRACE_S - took_s
                while made.ranks() and time.monotonic() < end:
                    time.sleep(0.1)
                self.assertEqual(made.ranks(), {}, "also where the link is cut")
                made.lab.heal(way[3][-1])
                # An mpirun that had to be killed clears nothing.
                left = [each for each in made.left(within_s=10) if not each.startswith("TMPDIR/ompi.")]
                self.assertEqual(left, [])

        job.at_once(self, WAYS[2:], trial)

    # mpirun hands the signal on to its ranks, and kills those that are still there seconds later.
    def test_a_signal_to_mpirun_or_its_supervisor_ends_all_as_interrupted(self):
        def trial(*way):
            with self.job(*way, ENDLESS, variables=PATIENCE) as made:
                made.start().await_work()
                made.signal(signal.SIGTERM)
                ended, took_s = made.finish()
                self.assertNotEqual(ended[0].code, 0)
                if way[0] == "supervised-mpirun":
                    self.assertEqual(ended[0].code, 130, ended[0].text)
                self.assertLess(took_s, DEADLINE_S + faults_test.GRACE_S, ended[0].text)
                report = made.report()
                self.assertEqual(report["status"], "interrupted", report["error"])
                self.assertGreater(report["runs"][0]["step"]["count"], 0)
                # A daemon of an mpirun that locked up and was killed ends when it misses it.
                self.assertEqual(made.left(within_s=30), [])

        job.at_once(self, [WAYS[0], WAYS[3]], trial)


if __name__ == "__main__":
    faults_test.main()
