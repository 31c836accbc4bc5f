#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests cmake/Dependencies.cmake with stand-ins for packages of other versions.

    dependencies_test.py CMAKE
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = "cmake"
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(check LANGUAGES CXX)
set(DDPBENCH_BUILD_TESTS OFF)
set(DDPBENCH_BUILD_MICRO OFF)
include("{ROOT}/cmake/Dependencies.cmake")
"""
# As the version files that CMake writes for packages: another major version does not fit.
VERSION_FILE = """set(PACKAGE_VERSION "{0}")
if(PACKAGE_FIND_VERSION_MAJOR STREQUAL "{1}" AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


class Dependencies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = pathlib.Path(tempfile.mkdtemp()).resolve()
        (cls.stage / "CMakeLists.txt").write_text(PROJECT)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.stage)

    def configure(self, package, version):
        """Configures with `package` of that version; returns the exit code and the messages."""
        folder = self.stage / package
        folder.mkdir(exist_ok=True)
        (folder / f"{package}Config.cmake").write_text("")
        (folder / f"{package}ConfigVersion.cmake").write_text(
            VERSION_FILE.format(version, version.split(".")[0]))
        run = subprocess.run([CMAKE, "-S", self.stage, "-B", self.stage / "build", "-U*_DIR",
                              f"-D{package}_DIR={folder}"], capture_output=True, text=True, check=False)
        return run.returncode, " ".join(run.stderr.split())

    def test_an_old_onednn_stops_with_a_sentence(self):
        for version in ("1.8.0", "2.5.4"):
            with self.subTest(version=version):
                code, message = self.configure("dnnl", version)
                self.assertNotEqual(code, 0)
                self.assertIn(f"dnnl {version} is too old: ddpbench needs 2.6 or newer", message)
                self.assertIn("libdnnl-dev", message)

    def test_every_newer_onednn_is_taken(self):
        for version in ("2.6.3", "2.7.5", "3.1.1", "3.7.2"):
            with self.subTest(version=version):
                self.assertEqual(self.configure("dnnl", version), (0, ""))

    def test_other_old_packages_stop_too(self):
        for package, version, minimum in (("fmt", "8.1.1", "9.1"), ("nlohmann_json", "3.7.3", "3.11")):
            with self.subTest(package=package):
                code, message = self.configure(package, version)
                self.assertNotEqual(code, 0)
                self.assertIn(f"{package} {version} is too old: ddpbench needs {minimum} or newer", message)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CMAKE = sys.argv.pop(1)
    unittest.main()
