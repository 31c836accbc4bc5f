#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/build_preset.sh and run.sh in a checkout that another user has built.

The checkout is made of the scripts, one source, and a stand-in for cmake that writes a program which
prints its arguments. As root the tests run the scripts as user 65534, else in folders without the
right to write.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Configures and "builds": writes the program of the preset.
CMAKE = """#!/bin/bash
echo "cmake $*" >>"$STAGE/log"
for preset in cpu-release cuda-release; do
  if [[ "$*" == *"--build"*"/$preset "* || "$*" == *"--build"*"/$preset" ]]; then
    mkdir -p "$STAGE/checkout/build/$preset/bin"
    printf '#!/bin/bash\\necho "program: $*"\\n' >"$STAGE/checkout/build/$preset/bin/ddpbench"
    chmod 755 "$STAGE/checkout/build/$preset/bin/ddpbench"
  elif [[ "$*" == *"--preset $preset"* ]]; then
    mkdir -p "$STAGE/checkout/build/$preset"
    touch "$STAGE/checkout/build/$preset/build.ninja" "$STAGE/checkout/build/$preset/CMakeCache.txt"
  fi
done
"""
INSTALL = """#!/bin/bash
[[ $1 != --check ]]
"""


class SecondUser(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(self.remove)
        self.checkout = self.stage / "checkout"
        (self.checkout / "scripts").mkdir(parents=True)
        (self.checkout / "base").mkdir()
        (self.checkout / "tests").mkdir()
        (self.stage / "bin").mkdir()
        shutil.copy(ROOT / "run.sh", self.checkout)
        shutil.copy(ROOT / "CMakePresets.json", self.checkout)
        for name in ("build_preset.sh", "missing_for_cuda.sh"):
            shutil.copy(ROOT / "scripts" / name, self.checkout / "scripts")
        self.tool(self.checkout / "scripts" / "install_packages.sh", INSTALL)
        self.tool(self.stage / "bin" / "cmake", CMAKE)
        (self.checkout / "base" / "text.cpp").write_text("int a;\n")
        (self.checkout / "tests" / "text_test.cpp").write_text("int b;\n")
        self.stage.chmod(0o755)

    def remove(self):
        subprocess.run(["chmod", "-R", "u+w", self.stage], check=True)
        shutil.rmtree(self.stage)

    @staticmethod
    def tool(file, text):
        file.write_text(text)
        file.chmod(0o755)

    def run_script(self, *command, as_second=False):
        environment = {**os.environ, "STAGE": str(self.stage),
                       "PATH": f"{self.stage / 'bin'}:{os.environ['PATH']}"}
        options = {}
        if as_second and os.geteuid() == 0:
            options = {"user": 65534, "group": 65534, "extra_groups": []}
        elif as_second:
            subprocess.run(["chmod", "-R", "a-w", self.checkout], check=True)
        return subprocess.run([str(self.checkout / command[0]), *command[1:]], env=environment,
                              cwd="/", capture_output=True, text=True, check=False, **options)

    def change(self, name):
        """Makes a source newer than the program, as an editor would."""
        file = self.checkout / name
        os.utime(file, (time.time() + 5, time.time() + 5))

    def test_runs_the_program_that_the_owner_built(self):
        self.assertIn("program: --version", self.run_script("run.sh", "--version").stdout)
        self.change("tests/text_test.cpp")
        log = (self.stage / "log").read_text()
        done = self.run_script("run.sh", "--version", as_second=True)
        self.assertEqual((done.returncode, done.stdout), (0, "program: --version\n"), done.stderr)
        self.assertEqual((self.stage / "log").read_text(), log)

    def test_refuses_a_program_that_is_older_than_a_source(self):
        self.run_script("run.sh", "--version")
        self.change("base/text.cpp")
        done = self.run_script("run.sh", "--version", as_second=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("base/text.cpp is newer than the program", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_takes_a_build_that_had_nothing_to_do(self):
        self.run_script("run.sh", "--version")
        earlier = time.time() - 3600
        os.utime(self.checkout / "build" / "cpu-release" / "bin" / "ddpbench", (earlier, earlier))
        done = self.run_script("run.sh", "--version", as_second=True)
        self.assertEqual((done.returncode, done.stdout), (0, "program: --version\n"), done.stderr)

    def test_says_what_to_do_where_nothing_is_built(self):
        done = self.run_script("run.sh", "--version", as_second=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing is built there yet", done.stderr)
        self.assertIn("a clone of your own", done.stderr)

    def test_builds_no_tests_for_the_second_user(self):
        self.run_script("run.sh", "--version")
        done = self.run_script("scripts/build_preset.sh", "cpu-release", "all", as_second=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only the programs", done.stderr)


if __name__ == "__main__":
    unittest.main()
