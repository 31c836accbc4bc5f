#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/ci_gate.sh and scripts/gate_real_runs.sh with a stand-in for the program."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

# Logs its name and arguments. A run writes the report of --json and exits with the content of
# `run_code`. check exits with the content of `check_code`, or of `slow_code` for slowed-down runs.
PROGRAM = """#!/bin/bash
echo "$(basename "$0") $*" >>"$STAGE/log"
if [[ $1 == check ]]; then
  echo "verdict"
  for word; do
    if [[ $last == -o ]]; then echo result >"$word"; fi
    last=$word
  done
  [[ $* == *slow-* ]] && exit "$(cat "$STAGE/slow_code")"
  exit "$(cat "$STAGE/check_code")"
fi
code=$(cat "$STAGE/run_code")
for word; do
  [[ $word != --json=* || $code == 2 ]] || echo report >"${word#*=}"
done
exit "$code"
"""


class Gate(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.stage)
        for name in ("base", "new"):
            (self.stage / name).write_text(PROGRAM)
            (self.stage / name).chmod(0o755)
        self.codes()

    def codes(self, run=0, check=0, slow=6):
        for name, code in (("run", run), ("check", check), ("slow", slow)):
            (self.stage / f"{name}_code").write_text(str(code))

    def script(self, name, *arguments):
        done = subprocess.run([str(SCRIPTS / name), *arguments], cwd=self.stage, text=True,
                              env={**os.environ, "STAGE": str(self.stage),
                                   "PATH": f"{self.stage}:{os.environ['PATH']}"},
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def gate(self, *arguments, run=("--steps=3",)):
        return self.script("ci_gate.sh", "--base=./base", "--new=./new", "--out=out", *arguments,
                           "--", *run)

    def log(self):
        return (self.stage / "log").read_text().splitlines()

    def test_runs_both_in_turn_and_checks_them(self):
        code, out = self.gate("--repetitions=3", "--check=--alpha=0.01")
        self.assertEqual(code, 0, out)
        runs = [line for line in self.log() if " check " not in line]
        self.assertEqual([line.split()[0] for line in runs],
                         ["base", "new", "new", "base", "base", "new"])
        self.assertEqual(runs[0],
                         "base --steps=3 --repetitions=1 --quiet --json=out/base-1.json")
        checks = [line for line in self.log() if " check " in line]
        self.assertEqual(len(checks), 5)
        self.assertTrue(checks[0].startswith(
            "new check out/new-1.json out/new-2.json out/new-3.json "
            "--baseline out/base-1.json out/base-2.json out/base-3.json --alpha=0.01"), checks[0])
        for name in ("check.json", "check.md", "check.xml", "check.github"):
            self.assertTrue((self.stage / "out" / name).exists(), name)

    def test_finds_programs_in_the_path(self):
        code, out = self.script("ci_gate.sh", "--base=base", "--new=new", "--out=out",
                                "--repetitions=1", "--", "--steps=3")
        self.assertEqual(code, 0, out)

    def test_measures_collectives_too(self):
        self.assertEqual(self.gate("--repetitions=2", run=("comm", "--sizes=4K"))[0], 0)
        self.assertEqual(self.log()[0], "base comm --sizes=4K --quiet --json=out/base-1.json")

    def test_ends_with_the_exit_code_of_the_check(self):
        for code in (6, 7):
            self.codes(check=code)
            self.assertEqual(self.gate("--repetitions=1")[0], code)
            self.assertTrue((self.stage / "out" / "check.md").exists())
            shutil.rmtree(self.stage / "out")
        self.codes(check=2)
        self.assertEqual(self.gate("--repetitions=1")[0], 2)
        self.assertTrue((self.stage / "out" / "check.xml").exists())

    def test_lets_the_check_judge_runs_that_failed_with_a_report(self):
        self.codes(run=5, check=6)
        self.assertEqual(self.gate("--repetitions=1")[0], 6)

    def test_stops_where_a_run_leaves_no_report(self):
        self.codes(run=2)
        self.assertEqual(self.gate("--repetitions=1")[0], 2)
        self.assertEqual(len(self.log()), 1)

    def test_stops_where_a_signal_ended_a_run_although_it_left_a_report(self):
        for code in (130, 134, 143):
            self.codes(run=code)
            self.assertEqual(self.gate("--repetitions=2")[0], code)
            self.assertEqual(len(self.log()), 1)
            shutil.rmtree(self.stage / "out")
            (self.stage / "log").unlink()

    def test_gives_only_the_new_program_what_is_for_it(self):
        self.gate("--repetitions=1", "--new-only=--inject=sum")
        self.assertNotIn("--inject", self.log()[0])
        self.assertIn("--inject=sum", self.log()[1])

    def trainers(self, *arguments, new="echo new >$CSV"):
        folder = self.stage / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "ddpbench"
        # An import names in the log what it read, and copies it.
        program.write_text("#!/bin/bash\nif [[ $1 == import ]]; then\n"
                           'echo "import $(cat "$2") ${*:2}" >>"$STAGE/log"; cp "$2" "${!#}"; exit\n'
                           "fi\n" + PROGRAM.split("\n", 1)[1])
        program.chmod(0o755)
        done = subprocess.run(
            [str(SCRIPTS / "ci_gate.sh"), "--base=echo base >>$CSV", f"--new={new}", "--out=out",
             "--import=--as=ddp", "--import=--batch-size=64", *arguments],
            cwd=self.stage, text=True, capture_output=True, check=False,
            env={**os.environ, "STAGE": str(self.stage), "PATH": f"{folder}:{os.environ['PATH']}"})
        return done.returncode, done.stdout + done.stderr

    def test_alternates_two_trainers_that_write_csv(self):
        for again in ([], ["--force"]):
            (self.stage / "log").write_text("")
            code, out = self.trainers("--repetitions=2", *again)
            self.assertEqual(code, 0, out)
            imports = [line.split() for line in self.log() if line.startswith("import")]
            self.assertEqual([(line[1], line[2]) for line in imports],
                             [("base", "out/base-1.csv"), ("new", "out/new-1.csv"),
                              ("new", "out/new-2.csv"), ("base", "out/base-2.csv")])
            self.assertEqual(imports[0][4:],
                             ["--as=ddp", "--batch-size=64", "-o", "out/base-1.json"])
            self.assertRegex(imports[0][3], r"^--measured-at=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertIn("ddpbench check out/new-1.json out/new-2.json --baseline out/base-1.json "
                          "out/base-2.json", self.log())
        self.assertEqual(self.trainers()[0], 2)  # without --force reports stay

    def test_stops_where_a_trainer_fails(self):
        code, out = self.trainers("--repetitions=2", new="echo oh no; exit 3")
        self.assertEqual(code, 2)
        self.assertIn("oh no", out)
        self.assertIn("new-1: 'echo oh no; exit 3' failed", out)

    def test_removes_reports_of_an_earlier_gate_only_where_asked(self):
        self.assertEqual(self.gate("--repetitions=2")[0], 0)
        self.assertEqual(self.gate("--repetitions=1", "--force")[0], 0)
        self.assertFalse((self.stage / "out" / "base-2.json").exists())

    def test_refuses_what_would_mix_or_cannot_run(self):
        self.assertEqual(self.gate("--repetitions=1")[0], 0)
        code, out = self.gate("--repetitions=1")
        self.assertEqual(code, 2)
        self.assertIn("holds reports already", out)
        for argument in ("--repetitions=0", "--base=absent", "--unknown"):
            self.assertEqual(self.gate(argument)[0], 2, argument)

    def real(self, *arguments):
        return self.script("gate_real_runs.sh", "--program=./new", "--out=real",
                           "--comparisons=2", "--repetitions=2", *arguments)

    def test_counts_what_real_runs_give_and_goes_on_where_it_stopped(self):
        code, out = self.real()
        self.assertEqual(code, 0, out)
        self.assertIn("2 passed, 0 flagged, 0 inconclusive of 2", out)
        self.assertIn("2 found of 2", out)
        runs = [line for line in self.log() if " check " not in line]
        self.assertEqual(len(runs), 2 * 2 * 3)
        self.assertEqual(sum("--inject" in line for line in runs), 4)
        self.assertIn("--strategy=ddp ", next(line for line in runs if "--inject" in line))
        self.real()
        self.assertEqual(len([line for line in self.log() if " check " not in line]), 12)

    def test_makes_a_run_again_that_was_stopped(self):
        self.codes(run=143)
        self.assertEqual(self.real()[0], 143)
        self.assertEqual(len(self.log()), 1)
        self.assertFalse(list((self.stage / "real").glob("*/*.json")))
        self.codes()
        code, out = self.real()
        self.assertEqual(code, 0, out)
        self.assertEqual(len([line for line in self.log() if " check " not in line]), 1 + 12)
        self.assertEqual(len(list((self.stage / "real").glob("*/*.json"))), 12)
        self.assertFalse(list((self.stage / "real").glob("*/*.part")))

    def test_fails_where_the_promise_is_missed(self):
        self.codes(check=6)
        self.assertEqual(self.real()[0], 1)
        self.codes(check=7)
        self.assertEqual(self.real()[0], 1)
        self.codes(slow=7)
        self.assertEqual(self.real()[0], 1)


if __name__ == "__main__":
    unittest.main()
