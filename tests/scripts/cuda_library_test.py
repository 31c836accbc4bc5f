#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests cmake/CudaLibrary.cmake on folders laid out as Python's packages, a toolkit and a system.

    cuda_library_test.py CMAKE
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = "cmake"
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(check LANGUAGES NONE)
set(CMAKE_SYSTEM_PREFIX_PATH "${SYSTEM}")
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
include("%s/cmake/CudaLibrary.cmake")
ddpbench_cuda_library(found HEADER nccl.h LIBRARY nccl SONAME libnccl.so.2
                      PLACES "${PACKAGE}" "${TOOLKIT}")
""" % ROOT


class CudaLibrary(unittest.TestCase):
    def setUp(self):
        self.stage = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.stage)
        (self.stage / "CMakeLists.txt").write_text(PROJECT)
        self.package, self.toolkit, self.system = (self.stage / name
                                                   for name in ("package", "toolkit", "system"))

    def lay(self, folder, *files):
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()

    def found(self, *options):
        """Returns the header's folder and the library, or CMake's message."""
        build = self.stage / "build"
        shutil.rmtree(build, ignore_errors=True)
        run = subprocess.run(
            [CMAKE, "-S", self.stage, "-B", build, f"-DPACKAGE={self.package}", f"-DTOOLKIT={self.toolkit}",
             f"-DSYSTEM={self.system}", "-DCMAKE_MAKE_PROGRAM=true",
             "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF",
             "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF", *options],
            capture_output=True, text=True, check=False)
        if run.returncode != 0:
            return run.stderr
        cache = dict(line.split("=", 1) for line in (build / "CMakeCache.txt").read_text().splitlines()
                     if "=" in line)
        return tuple(cache[key] for key in ("found_INCLUDE:PATH", "found_LIBRARY:FILEPATH"))

    def test_takes_both_from_pythons_package_although_the_system_has_a_link(self):
        self.lay(self.package, "include/nccl.h", "lib/libnccl.so.2")
        self.lay(self.toolkit, "include/nccl.h", "lib64/libnccl.so")
        self.lay(self.system, "include/nccl.h", "lib/libnccl.so")
        self.assertEqual(self.found(), (f"{self.package}/include", f"{self.package}/lib/libnccl.so.2"))

    def test_takes_what_python_lacks_from_the_toolkit_and_then_from_the_system(self):
        self.lay(self.toolkit, "include/nccl.h", "lib64/libnccl.so", "lib64/libnccl.so.2")
        self.lay(self.system, "include/nccl.h", "lib/libnccl.so")
        self.assertEqual(self.found(), (f"{self.toolkit}/include", f"{self.toolkit}/lib64/libnccl.so"))
        shutil.rmtree(self.toolkit)
        self.assertEqual(self.found(), (f"{self.system}/include", f"{self.system}/lib/libnccl.so"))

    def test_takes_the_library_beside_the_header_before_others(self):
        # Libraries without headers come first, in the order of places and in CMake's own.
        self.lay(self.package, "lib/libnccl.so.2")
        self.lay(self.toolkit, "include/nccl.h", "lib64/libnccl.so")
        prefix = self.stage / "prefix"
        self.lay(prefix, "lib/libnccl.so")
        self.assertEqual(self.found(f"-DCMAKE_PREFIX_PATH={prefix}"),
                         (f"{self.toolkit}/include", f"{self.toolkit}/lib64/libnccl.so"))
        # CMAKE_PREFIX_PATH, with both, precedes all places.
        self.lay(prefix, "include/nccl.h")
        self.assertEqual(self.found(f"-DCMAKE_PREFIX_PATH={prefix}"),
                         (f"{prefix}/include", f"{prefix}/lib/libnccl.so"))

    def test_takes_the_library_beside_a_header_in_the_architectures_folder(self):
        self.lay(self.toolkit, "lib64/libnccl.so")
        self.lay(self.system, "lib/x86_64-linux-gnu/libnccl.so")
        for folder in ("include", "include/x86_64-linux-gnu"):
            shutil.rmtree(self.system / "include", ignore_errors=True)
            self.lay(self.system, f"{folder}/nccl.h")
            self.assertEqual(self.found("-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu"),
                             (f"{self.system}/{folder}", f"{self.system}/lib/x86_64-linux-gnu/libnccl.so"))

    def test_takes_a_library_from_elsewhere_when_none_is_beside_the_header(self):
        self.lay(self.package, "include/nccl.h")
        self.lay(self.toolkit, "lib64/libnccl.so")
        self.assertEqual(self.found(), (f"{self.package}/include", f"{self.toolkit}/lib64/libnccl.so"))

    def test_says_what_is_missing(self):
        self.assertIn("nccl.h was not found", self.found())
        self.lay(self.package, "include/nccl.h")
        self.assertIn("libnccl.so.2 was not found", self.found())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CMAKE = sys.argv.pop(1)
    unittest.main()
