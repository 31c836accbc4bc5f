#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/check_size.py on small trees of known sizes."""

import json
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

    def budget(self, budget, *options):
        """Of a header with one user, its source, that user of 50 lines, and a document of three words."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("kernels/ops", "scripts", "docs"):
                (root / name).mkdir(parents=True)
            (root / "kernels/ops/a.h").write_text("int f();\n" + "\n" * 39)
            (root / "kernels/ops/a.cpp").write_text('#include "kernels/ops/a.h"\n')
            (root / "kernels/ops/b.cpp").write_text('#include "kernels/ops/a.h"\n' + "\n" * 49)
            (root / "docs/page.md").write_text("of three words\n")
            file = root / "scripts/budget.json"
            file.write_text(json.dumps(budget))
            done = subprocess.run([sys.executable, "-B", str(CHECKER), *options, folder],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, json.loads(file.read_text())

    EXACT = {"rooms": {"kernels/ops": [91, 3], "words of documents": [3, 0]},
             "small": ["kernels/ops/a.cpp"], "one_user": ["kernels/ops/a.h"]}

    def test_accepts_a_tree_at_its_budget(self):
        code, out, _ = self.budget(self.EXACT)
        self.assertEqual(code, 0, out)
        self.assertIn("91 production lines in 3 files, headers median 40", out)

    def test_finds_what_is_over_the_budget(self):
        for change, what in (({"rooms": {"kernels/ops": [90, 3], "words of documents": [3, 0]}}, "kernels/ops: [91, 3]"),
                             ({"rooms": {"kernels/ops": [91, 2], "words of documents": [3, 0]}}, "kernels/ops: [91, 3]"),
                             ({"rooms": {"kernels/ops": [91, 3], "words of documents": [2, 0]}}, "words of documents: [3, 0]"),
                             ({"rooms": {"words of documents": [3, 0]}}, "kernels/ops: [91, 3]"),
                             ({"small": []}, "kernels/ops/a.cpp: fewer than 40 lines"),
                             ({"one_user": []}, "kernels/ops/a.h: included by kernels/ops/b.cpp alone")):
            code, out, _ = self.budget({**self.EXACT, **change})
            self.assertEqual(code, 1)
            self.assertIn(f"OVER THE BUDGET: {what}", out)

    def test_tightening_lowers_and_never_raises(self):
        loose = {"rooms": {"kernels/ops": [95, 2], "words of documents": [9, 0]},
                 "small": ["kernels/ops/a.cpp", "kernels/ops/gone.cpp"], "one_user": ["kernels/ops/a.h"]}
        code, _, after = self.budget(loose, "--tighten")
        self.assertEqual(code, 1)
        self.assertEqual(after, {**self.EXACT, "rooms": {"kernels/ops": [91, 2], "words of documents": [3, 0]}})


if __name__ == "__main__":
    unittest.main()
