#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/install_packages.sh with stand-ins for the package managers of the systems it knows."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

LIST = """# comment
run alpha = alpha-devel # first
run beta = = # second
run snap - = # third
test gamma = c(gamma) # fourth
"""
SYSTEMS = {
    "debian 12": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
    "debian 13": 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13"\n',
    "debian 14": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux forky/sid"\n',
    "ubuntu 24.04": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n',
    "mint": 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\nPRETTY_NAME="Linux Mint 22"\n',
    "fedora 42": 'ID=fedora\nVERSION_ID=42\n',
    "arch": 'ID=arch\nPRETTY_NAME="Arch Linux"\n',
}
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
# Knows the capabilities of the file `installed`, as `rpm -q --quiet --whatprovides NAME` does.
RPM = """#!/bin/bash
grep -qxF -- "${!#}" "$STAGE/installed"
"""
DNF = """#!/bin/bash
echo "dnf $*" >>"$STAGE/log"
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
        self.tool("rpm", RPM)
        self.tool("dnf", DNF)
        self.tool("sudo", '#!/bin/bash\nexec "$@"\n')
        self.system("debian 12")
        self.installed("alpha", "beta", "snap", "gamma")

    def system(self, name):
        (self.stage / "os-release").write_text(SYSTEMS[name])

    def tool(self, name, text):
        file = self.stage / "bin" / name
        file.write_text(text)
        file.chmod(0o755)

    def installed(self, *packages):
        (self.stage / "installed").write_text("".join(p + "\n" for p in packages))

    def run_script(self, *arguments, **variables):
        environment = {**os.environ, "STAGE": str(self.stage),
                       "OS_RELEASE_FILE": str(self.stage / "os-release"), **variables,
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
        for system in ("debian 12", "debian 13"):
            with self.subTest(system=system):
                self.system(system)
                (self.stage / "log").unlink(missing_ok=True)
                self.assertEqual(self.run_script("run").returncode, 0)
                self.assertIn(" beta snap", self.log())
                for absent in ("alpha", "gamma", "update"):
                    self.assertNotIn(absent, self.log())

    def test_does_without_what_ubuntu_does_not_have(self):
        self.system("ubuntu 24.04")
        self.installed("alpha")
        (self.stage / "updated").touch()
        self.assertEqual(self.run_script("run").returncode, 0)
        self.assertIn("beta", self.log())
        self.assertNotIn("snap", self.log())

    def test_takes_fedoras_names_and_dnf(self):
        self.system("fedora 42")
        self.installed("alpha-devel", "snap")
        self.assertEqual(self.run_script("--check", "run").returncode, 1)
        self.assertEqual(self.run_script("run", "test").returncode, 0)
        self.assertTrue(self.log().rstrip().endswith("install beta c(gamma)"), self.log())
        self.installed("alpha-devel", "beta", "snap", "c(gamma)")
        self.assertEqual(self.run_script("run", "test").returncode, 0)
        self.assertEqual(len(self.log().splitlines()), 1)

    def test_only_looks_on_relatives_of_what_it_knows(self):
        for system, name in (("debian 14", "forky"), ("mint", "Linux Mint 22")):
            with self.subTest(system=system):
                self.system(system)
                self.installed("alpha")
                done = self.run_script("run")
                self.assertEqual(done.returncode, 3)
                self.assertIn(name, done.stderr)
                self.assertIn("apt-get install --no-install-recommends beta", done.stderr)
                self.assertEqual(self.log(), "")
                self.installed("alpha", "beta", "snap")
                self.assertEqual(self.run_script("run").returncode, 0)

    def test_lists_what_is_needed_where_it_cannot_look(self):
        self.system("arch")
        done = self.run_script("run")
        self.assertEqual(done.returncode, 3)
        for part in ("Arch Linux", "alpha", "first", "beta", 'ASSUME_PACKAGES="run"'):
            self.assertIn(part, done.stderr)
        self.assertNotIn("gamma", done.stderr)
        self.assertEqual(self.run_script("--check", "test").returncode, 1)
        (self.stage / "os-release").unlink()
        self.assertEqual(self.run_script("run").returncode, 3)

    def test_believes_that_groups_are_installed(self):
        self.system("arch")
        self.assertEqual(self.run_script("run", ASSUME_PACKAGES="run").returncode, 0)
        self.assertEqual(self.run_script("--check", "test", ASSUME_PACKAGES="run").returncode, 1)
        self.assertEqual(self.run_script("run", "test", ASSUME_PACKAGES="run").returncode, 3)
        self.assertEqual(self.run_script("run", "test", ASSUME_PACKAGES="run test").returncode, 0)

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
        self.assertIn("apt-get install --no-install-recommends beta snap", done.stderr)

    def test_check_only_answers_by_exit_code(self):
        self.installed("alpha")
        self.assertEqual(self.run_script("--check", "run").returncode, 1)
        self.assertEqual(self.run_script("--check", "test").returncode, 1)
        self.installed("alpha", "beta", "snap")
        self.assertEqual(self.run_script("--check", "run").returncode, 0)
        self.assertEqual(self.log(), "")

    def test_every_package_has_a_name_in_each_system(self):
        for line in (SCRIPTS / "packages.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                columns, _, why = line.partition(" # ")
                self.assertEqual(len(columns.split()), 4, line)
                self.assertTrue(why, line)

    def test_refuses_unknown_groups_and_no_group(self):
        for arguments in (["fly"], ["run", "fly"], []):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.run_script(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
