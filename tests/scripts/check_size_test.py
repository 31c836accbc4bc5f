#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/check_size.py on small trees of known sizes."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_size.py"


def function(lines, header="void f(int a)"):
    """A function of `lines` lines, including the braces."""
    return header + " {\n" + "  g();\n" * (lines - 2) + "}\n"


class CheckSize(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kernels" / "a.cpp"
            file.parent.mkdir()
            file.write_text(text)
            done = subprocess.run([sys.executable, "-B", str(CHECKER), folder],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_accepts_files_and_functions_at_their_limits(self):
        code, out = self.check(function(60) + "\n" * 440)
        self.assertEqual(code, 0, out)
        self.assertIn("  60  kernels/a.cpp:1", out)
        self.assertIn(" 500  kernels/a.cpp", out)

    def test_finds_a_function_over_its_limit(self):
        code, out = self.check("int x;\n" + function(61))
        self.assertEqual(code, 1)
        self.assertIn("61  kernels/a.cpp:2  OVER THE LIMIT", out)

    def test_finds_a_file_over_its_limit(self):
        code, out = self.check("\n" * 501)
        self.assertEqual(code, 1)
        self.assertIn("501  kernels/a.cpp  OVER THE LIMIT", out)

    def test_counts_methods_lambdas_and_constructors_once(self):
        _, out = self.check("namespace n {\nclass A {\n public:\n  A() : b_(1) { g(); }\n"
                            "  int m() const {\n    const auto l = [&] {\n      return 1;\n    };\n"
                            "    return l();\n  }\n};\n}  // namespace n\n")
        self.assertIn("2 functions", out)
        self.assertIn("   6  kernels/a.cpp:5", out)

    def test_ignores_braces_in_strings_and_comments(self):
        _, out = self.check('void f() {\n  a("{");  // {\n}\nvoid h() {\n}\n')
        self.assertIn("2 functions", out)

    def test_does_not_count_functions_that_are_tables(self):
        table = "V table() {\n  return {\n" + "    {1, 2},\n" * 90 + "  };\n}\n"
        code, out = self.check(table + function(9))
        self.assertEqual(code, 0)
        self.assertIn("1 functions", out)

    def test_does_not_count_initialisers_and_types(self):
        _, out = self.check("struct S {\n  int a[2] = {1, 2};\n};\nenum class E { a, b };\n"
                            "const T t = {{1, 2}, f(3)};\n")
        self.assertNotIn("functions", out)

    def test_does_not_take_macros_before_a_namespace_for_a_function(self):
        _, out = self.check("DEFINE_TYPE(S, a,\n            b)\n\nnamespace {\nint x = 1;\n}\n")
        self.assertNotIn("functions", out)

    def test_hints_at_crumbs_without_failing(self):
        with tempfile.TemporaryDirectory() as folder:
            room = pathlib.Path(folder) / "kernels"
            room.mkdir()
            (room / "a.h").write_text("int f();\n")
            (room / "a.cpp").write_text('#include "kernels/a.h"\n')
            (room / "b.cpp").write_text('#include "kernels/a.h"\n' + "\n" * 30)
            done = subprocess.run([sys.executable, "-B", str(CHECKER), "--hints", folder],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("2 of 3 sources below 30 lines:\n        kernels/a.cpp\n        kernels/a.h\n",
                      done.stdout)
        self.assertIn("kernels/a.h <- kernels/b.cpp", done.stdout)


if __name__ == "__main__":
    unittest.main()
