#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that a real srun starts, on one machine with a Slurm of its own (scripts/slurm_machine.sh).

    tests/slurm/ranks_test.py DDPBENCH [TEST...]

Exits with 77 (skipped) where there can be no such machine.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from machine import SCRIPT, skip_without

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "netlab"))
from digits import write_digits  # pylint: disable=wrong-import-position
DDPBENCH = ""
SECRET = "0123456789abcdef0123456789abcdef"
CONFIG = {"model": "lenet5", "dataset": {"name": "mnist"}, "data_dir": "data", "batch_size": 8,
          "epochs": 1, "steps": 4, "warmup_steps": 1, "warmup_max_steps": 1, "verify_steps": 1,
          "timeout": 20}
ENDLESS = ["--steps=100000", "--epochs=10000", "--verify-steps=0"]
OVER_NODES = {"DDPBENCH_JOB_SECRET": SECRET}
AT_WORK_S = 0.4  # of processor time


def processes():
    """{pid: environment} of the program; PIDs are the machine's, nodes included."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.samefile(f"/proc/{entry}/exe", DDPBENCH):
                with open(f"/proc/{entry}/environ", encoding="utf-8") as file:
                    found[int(entry)] = dict(line.split("=", 1)
                                             for line in file.read().split("\0") if "=" in line)
        except OSError:
            pass  # it has ended
    return found


def ranks():
    """{rank: pid}"""
    return {int(variables["RANK"]): pid for pid, variables in processes().items()
            if "DDPBENCH_RUN_FD" in variables}


def used_s(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slurm-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(self.path("tmp"))
        write_digits(self.path("data/mnist"))
        with open(self.path("lenet.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, variables=None):
        said = open(self.path("said"), "w", encoding="utf-8")
        self.addCleanup(said.close)
        return subprocess.Popen(
            words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            env={**os.environ, "TMPDIR": self.path("tmp"), **(variables or {})})

    def said(self):
        with open(self.path("said"), encoding="utf-8") as file:
            return file.read()

    def run_to_end(self, words, variables=None):
        return self.start(words, variables).wait(120)

    def report(self, name="report.json"):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def expect_nothing_left(self):
        deadline = time.monotonic() + 10
        while processes():
            self.assertLess(time.monotonic(), deadline, "processes are left")
            time.sleep(0.05)
        files = [name for _, _, names in os.walk(self.path("tmp")) for name in names]
        self.assertEqual(files, [])

    def await_work(self):
        """Until both ranks train."""
        deadline = time.monotonic() + 60
        while len(ranks()) < 2 or any(used_s(pid) < AT_WORK_S for pid in ranks().values()):
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.05)


def program(*arguments):
    return [DDPBENCH, "--config=lenet.json", "--json=report.json", *arguments]


def srun(*options):
    return ["srun", *options, *program("--strategy=ddp")]


class JoinedWorld(Slurm):
    """srun ddpbench: the process of rank 0 supervises."""

    def test_ranks_of_a_node_share_memory_with_every_kind_of_pmi(self):
        listed = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, check=True)
        kinds = {"none", "pmi2", "pmix"} & set((listed.stdout + listed.stderr).split())
        self.assertIn("none", kinds)
        for kind in kinds:
            with self.subTest(kind):
                words = [*srun("--nodes=1", "--ntasks=2", f"--mpi={kind}"), "--force"]
                self.assertEqual(self.run_to_end(words), 0, self.said())
                run = self.report()["runs"][0]
                self.assertEqual((run["backend"], run["world_size"]), ("shm", 2))
                self.assertEqual(run["verification"]["status"], "passed")
        self.expect_nothing_left()

    def test_ranks_of_two_nodes_are_on_two_hosts(self):
        code = self.run_to_end(srun("--nodes=2", "--ntasks=3"), OVER_NODES)
        if code == 3:
            self.skipTest("--backend=gloo is not here")
        self.assertEqual(code, 0, self.said())
        report = self.report()
        self.assertEqual(report["environment"]["hosts"], ["n0", "n1"])
        run = report["runs"][0]
        self.assertEqual((run["backend"], run["verification"]["status"]), ("gloo", "passed"))
        self.assertEqual([device["host"] for device in run["devices"]], ["n0", "n0", "n1"])
        self.expect_nothing_left()

    def test_ranks_of_two_nodes_are_told_what_they_lack(self):
        words = srun("--nodes=2", "--ntasks=2")
        self.assertEqual(self.run_to_end(words), 2)
        self.assertIn("export DDPBENCH_JOB_SECRET=", self.said())
        self.assertFalse(os.path.exists(self.path("report.json")))

    def long_run(self, act):
        done = self.start([*srun("--nodes=1", "--ntasks=2"), *ENDLESS])
        self.await_work()
        act()
        done.wait(30)
        self.expect_nothing_left()
        return self.report()

    def test_a_killed_rank_is_named(self):
        for rank in (0, 1):
            report = self.long_run(lambda rank=rank: os.kill(ranks()[rank], signal.SIGKILL))
            self.assertEqual(report["status"], "failed")
            self.assertEqual((report["error"]["rank"], report["error"]["kind"]), (rank, "signal"))
            os.remove(self.path("report.json"))

    def test_a_cancelled_job_leaves_a_report(self):
        report = self.long_run(lambda: subprocess.run(["scancel", "--user=root"], check=True))
        self.assertEqual(report["status"], "interrupted")
        self.assertGreater(report["runs"][0]["step"]["count"], 0)


class Launcher(Slurm):
    """ddpbench --launcher=srun in an allocation: one step has the agents of all runs."""

    def salloc(self, options, *arguments):
        return ["salloc", "--quiet", *options, *program("--launcher=srun", *arguments)]

    def expect_matrix(self, report):
        self.assertEqual([(run["strategy"], run["world_size"], run["status"])
                          for run in report["runs"]],
                         [("single", 1, "ok"), ("ddp", 1, "ok"), ("ddp", 2, "ok"), ("ps", 1, "ok"),
                          ("ps", 2, "ok")])
        for run in report["runs"][1:]:
            self.assertEqual(run["verification"]["status"], "passed")

    def test_makes_the_matrix_on_one_node(self):
        code = self.run_to_end(self.salloc(["--nodes=1", "--ntasks=3"],
                                           "--strategy=single,ddp,ps", "--gpus=1,2"))
        self.assertEqual(code, 0, self.said())
        self.expect_matrix(self.report())
        self.expect_nothing_left()

    def long_run(self, act):
        done = self.start(self.salloc(["--nodes=1", "--ntasks=2"], "--strategy=ddp", "--gpus=2",
                                      *ENDLESS))
        self.await_work()
        act()
        code = done.wait(30)
        self.expect_nothing_left()
        return code

    def signal_supervisor(self, number):
        for pid, variables in processes().items():
            if "SLURM_STEP_ID" not in variables:
                os.kill(pid, number)

    # srun that gets SIGTERM ends ranks by SIGKILL: they would leave no records.
    def test_an_interrupt_leaves_what_was_measured(self):
        self.assertEqual(self.long_run(lambda: self.signal_supervisor(signal.SIGINT)), 130,
                         self.said())
        report = self.report()
        self.assertEqual(report["status"], "interrupted")
        self.assertEqual(len(report["runs"][0]["devices"]), 2)
        self.assertGreater(report["runs"][0]["step"]["count"], 0)

    def test_ends_its_ranks_when_it_is_killed(self):
        self.long_run(lambda: self.signal_supervisor(signal.SIGKILL))

    def test_a_killed_rank_is_named(self):
        code = self.long_run(lambda: os.kill(ranks()[1], signal.SIGKILL))
        self.assertEqual(code, 4, self.said())
        error = self.report()["error"]
        self.assertEqual((error["rank"], error["host"]), (1, "n0"))

    def test_says_why_srun_starts_no_ranks(self):
        code = self.run_to_end(self.salloc(["--nodes=1", "--ntasks=2"], "--strategy=ddp",
                                           "--gpus=4"))
        self.assertEqual(code, 4, self.said())
        self.assertIn("More processors requested than permitted", self.said())

    # A file system that the nodes do not have.
    def test_says_that_the_nodes_lack_the_program(self):
        os.mkdir(self.path("here"))
        subprocess.run(["mount", "-t", "tmpfs", "here", self.path("here")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("here")], check=True)
        shutil.copy(DDPBENCH, self.path("here/ddpbench"))
        words = self.salloc(["--ntasks=1"], "--strategy=single")
        words[words.index(DDPBENCH)] = self.path("here/ddpbench")
        self.assertNotEqual(self.run_to_end(words), 0)
        self.assertIn("No such file or directory", self.said())

    def test_two_steps_at_once_do_not_meet(self):
        line = ('for i in 1 2; do srun --exact --ntasks=2 --cpus-per-task=1 "$@" --json=$i.json & '
                'done; wait')
        code = self.run_to_end(
            ["salloc", "--quiet", "--nodes=1", "--ntasks=4", "sh", "-c", line, "sh", DDPBENCH,
             "--config=lenet.json", "--strategy=ddp", "--steps=100"],
            {"DDPBENCH_JOB_SECRET": SECRET})
        self.assertEqual(code, 0, self.said())
        for name in ("1.json", "2.json"):
            run = self.report(name)["runs"][0]
            self.assertEqual((run["status"], run["step"]["count"]), ("ok", 100), self.said())


class Batch(Slurm):
    def test_the_batch_script_makes_its_matrix_over_two_nodes(self):
        folders = os.pathsep.join((os.path.dirname(DDPBENCH), os.environ["PATH"]))
        # sbatch --wait looks every ten seconds.
        self.run_to_end(
            ["sbatch", str(ROOT / "deploy" / "ddpbench.sbatch")],
            {"PATH": folders, "DDPBENCH_STEPS": "2", "DDPBENCH_EPOCHS": "1",
             "DDPBENCH_DATA_DIR": "data",
             "DDPBENCH_BATCH_SIZE": "4", "DDPBENCH_VERIFY_STEPS": "0",
             "DDPBENCH_WARMUP_STEPS": "1", "DDPBENCH_WARMUP_MAX_STEPS": "1"})
        deadline = time.monotonic() + 60
        while subprocess.check_output(["squeue", "--noheader"]):
            self.assertLess(time.monotonic(), deadline, "the job does not end")
            time.sleep(0.1)
        (said,) = pathlib.Path(self.folder).glob("slurm-*.out")
        self.assertIn("report: ddpbench-", said.read_text(encoding="utf-8"))
        (name,) = [name for name in os.listdir(self.folder) if name.startswith("ddpbench-")]
        report = self.report(name)
        self.assertEqual(report["status"], "ok", report["error"])
        self.assertEqual([(run["strategy"], run["world_size"]) for run in report["runs"]],
                         [("single", 1), ("ddp", 1), ("ddp", 2), ("ddp", 4)])
        self.assertEqual([device["host"] for device in report["runs"][3]["devices"]],
                         ["n0", "n0", "n1", "n1"])
        self.expect_nothing_left()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if "SLURM_LOGS" not in os.environ:
        skip_without()
        # The batch script asks for four cores of a node.
        os.execv(SCRIPT, [SCRIPT, "--cpus=4", "--", sys.executable, "-B", *sys.argv])
    DDPBENCH = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
