#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/install_packages.sh with stand-ins for dpkg-query and apt-get."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

LIST = "# comment\nrun alpha # first\nrun beta\ntest gamma\n"
# Lists the packages of the file `installed`. Fails for an unknown package, like the real one.
DPKG_QUERY = """#!/bin/bash
shift 2
status=0
for package; do
  if grep -qx "$package" "$STAGE/installed"; then echo "installed $package"; else status=1; fi
done
exit $status
"""
# Logs its arguments. `install` succeeds after `update` has run, unless the file `broken` exists.
APT_GET = """#!/bin/bash
echo "$*" >>"$STAGE/log"
[[ -e "$STAGE/broken" ]] && { echo "no network" >&2; exit 100; }
case "$*" in
  *update*) touch "$STAGE/updated" ;;
  *install*) [[ -e "$STAGE/updated" ]] ;;
esac
"""


class InstallPackages(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.stage)
        (self.stage / "bin").mkdir()
        (self.stage / "scripts").mkdir()
        shutil.copy(SCRIPTS / "install_packages.sh", self.stage / "scripts")
        (self.stage / "scripts" / "packages.txt").write_text(LIST)
        self.tool("dpkg-query", DPKG_QUERY)
        self.tool("apt-get", APT_GET)
        self.tool("sudo", '#!/bin/bash\nexec "$@"\n')
        self.installed("alpha", "beta", "gamma")

    def tool(self, name, text):
        file = self.stage / "bin" / name
        file.write_text(text)
        file.chmod(0o755)

    def installed(self, *packages):
        (self.stage / "installed").write_text("".join(p + "\n" for p in packages))

    def run_script(self, *arguments):
        environment = {**os.environ, "STAGE": str(self.stage),
                       "PATH": f"{self.stage / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([str(self.stage / "scripts" / "install_packages.sh"), *arguments],
                              env=environment, capture_output=True, text=True, check=False)

    def log(self):
        file = self.stage / "log"
        return file.read_text() if file.exists() else ""

    def test_calls_no_apt_when_nothing_is_missing(self):
        self.assertEqual(self.run_script("run", "test").returncode, 0)
        self.assertEqual(self.log(), "")

    def test_installs_only_what_is_missing_in_the_groups_asked_for(self):
        self.installed("alpha")
        (self.stage / "updated").touch()
        self.assertEqual(self.run_script("run").returncode, 0)
        self.assertIn("beta", self.log())
        for absent in ("alpha", "gamma", "update"):
            self.assertNotIn(absent, self.log())

    def test_fetches_package_lists_only_when_installing_needs_them(self):
        self.installed("alpha")
        self.assertEqual(self.run_script("run").returncode, 0)
        calls = self.log().splitlines()
        self.assertIn("update", calls[-2])
        self.assertIn("install", calls[-1])

    def test_says_what_to_run_by_hand_when_apt_fails(self):
        self.installed("alpha")
        (self.stage / "broken").touch()
        done = self.run_script("run")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no network", done.stderr)
        self.assertIn("apt-get install --no-install-recommends beta", done.stderr)

    def test_check_only_answers_by_exit_code(self):
        self.installed("alpha")
        self.assertEqual(self.run_script("--check", "run").returncode, 1)
        self.assertEqual(self.run_script("--check", "test").returncode, 1)
        self.installed("alpha", "beta")
        self.assertEqual(self.run_script("--check", "run").returncode, 0)
        self.assertEqual(self.log(), "")

    def test_refuses_unknown_groups_and_no_group(self):
        for arguments in (["fly"], ["run", "fly"], []):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.run_script(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
