#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Plants violations in a small tree and expects scripts/check_includes.py to find exactly those."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_includes.py"
LICENCE = ("// SPDX-FileCopyrightText: The ddpbench authors\n"
           "// SPDX-License-Identifier: Apache-2.0\n")

# A tree without violations: each room has a file that includes what it may.
CLEAN = {
    "base/error.h": "#pragma once\n#include <string>\n#include <fmt/format.h>\n",
    "kernels/runtime/device.h": '#pragma once\n#include "base/error.h"\n',
    "kernels/runtime/phase.h": "#pragma once\nstruct BucketTimes {};\n",
    "kernels/ops/op.h": '#pragma once\n#include "kernels/runtime/device.h"\n',
    "kernels/ops/onednn/conv2d.cpp": '#include <dnnl.hpp>\n#include "kernels/ops/op.h"\n',
    "kernels/nn/graph.h": '#pragma once\n#include "kernels/ops/op.h"\n',
    "parallel/strategy.h": '#pragma once\n#include "kernels/nn/graph.h"\n'
                           '#include "parallel/comm/communicator.h"\n',
    "parallel/comm/communicator.h": '#pragma once\n#include "kernels/runtime/device.h"\n',
    "parallel/launch/ranks.cpp": '#include "parallel/comm/communicator.h"\n'
                                 'auto* r = getenv("RANK");\n',
    "datasets/idx.cpp": '#include <zlib.h>\n#include "base/error.h"\n',
    "reports/data/report.h": '#pragma once\n#include "base/error.h"\n',
    "bench/micro/a.cpp": '#include <benchmark/benchmark.h>\n',
    "bench/main.cpp": '#include "reports/data/report.h"\n'
                      '#include "parallel/strategy.h"\nint main() { std::printf("x"); exit(0); }\n',
}


class CheckIncludes(unittest.TestCase):
    def check(self, extra):
        """Runs the checker over CLEAN with `extra` added. Returns its exit code and output lines."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**CLEAN, **extra}.items():
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text if text.startswith("!") else LICENCE + text)
            done = subprocess.run([sys.executable, str(CHECKER), str(root)],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout.splitlines()

    def expect_clean(self, path, text):
        self.assertEqual(self.check({path: text}), (0, []))

    def expect_violation(self, path, text, *parts):
        """Expects that `text` violates one rule, in its last line unless `parts` say otherwise."""
        code, lines = self.check({path: text})
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(path + ":"), lines)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_accepts_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.check({}), (0, []))

    def test_finds_a_room_that_includes_one_above_it(self):
        above = [("kernels/runtime/a.cpp", "kernels/ops/op.h"),
                 ("kernels/ops/a.cpp", "kernels/nn/graph.h"),
                 ("kernels/nn/a.cpp", "parallel/comm/communicator.h"),
                 ("parallel/comm/a.cpp", "kernels/ops/op.h"),
                 ("parallel/launch/a.cpp", "parallel/strategy.h"),
                 ("parallel/a.cpp", "reports/data/report.h"),
                 ("datasets/a.cpp", "kernels/runtime/device.h"),
                 ("reports/data/a.cpp", "parallel/strategy.h")]
        for path, target in above:
            with self.subTest(path=path):
                self.expect_violation(path, f'#include "{target}"\n', ":3:", target)

    def test_finds_a_room_inside_a_room_that_includes_one_above_it(self):
        above = [("reports/data/a.cpp", "reports/gate/gate.h"),
                 ("bench/host/a.cpp", "bench/options/options.h"),
                 ("kernels/nn/plan/a.cpp", "kernels/nn/graph.h"),
                 ("kernels/ops/op.cpp", "kernels/ops/cuda/library/gemm.h")]
        for path, target in above:
            with self.subTest(path=path):
                there = {target: "#pragma once\n"}
                code, lines = self.check({**there, path: f'#include "{target}"\n'})
                self.assertEqual((code, len(lines)), (1, 1), lines)
                self.assertIn(f'{path}:3: ', lines[0])
                self.assertIn("stands above it", lines[0])
                self.assertEqual(self.check({**there, target.replace(".h", "_too.h"):
                                             f'#pragma once\n#include "{target}"\n'}), (0, []))

    def test_finds_a_folder_that_is_no_room(self):
        self.expect_violation("reports/sundries/a.cpp", "int a;\n", "not among the rooms of reports")
        self.expect_violation("reports/a.cpp", "int a;\n", "not among the rooms of reports")
        self.expect_clean("datasets/readers/a.cpp", "int a;\n")  # a room without rooms inside

    def test_finds_units_that_include_each_other_in_a_circle(self):
        code, lines = self.check({
            "datasets/a.h": "#pragma once\n",
            "datasets/a.cpp": '#include "datasets/b.h"\n',
            "datasets/b.h": '#pragma once\n#include "datasets/c.h"\n',
            "datasets/c.h": '#pragma once\n#include "datasets/a.h"\n',
            "datasets/d.h": '#pragma once\n#include "datasets/a.h"\n'})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertIn("datasets/a -> datasets/b -> datasets/c -> datasets/a", lines[0])

    def test_takes_a_source_and_its_header_for_one_unit(self):
        self.assertEqual(self.check({"datasets/a.h": "#pragma once\n",
                                     "datasets/a.cpp": '#include "datasets/a.h"\n'}), (0, []))

    def test_finds_a_library_outside_its_room(self):
        outside = [("kernels/ops/op.h", "dnnl.hpp"), ("kernels/nn/a.cpp", "dnnl.hpp"),
                   ("parallel/a.cpp", "nlohmann/json.hpp"), ("reports/data/a.cpp", "zlib.h"),
                   ("kernels/runtime/device.h", "hwloc.h"), ("parallel/comm/ring.cpp", "mpi.h"),
                   ("kernels/runtime/a.cpp", "cuda_runtime.h"),
                   ("bench/options/a.cpp", "benchmark/benchmark.h")]
        for path, header in outside:
            with self.subTest(path=path, header=header):
                self.expect_violation(path, f"#pragma once\n#include <{header}>\n", ":4:", header)

    def test_finds_a_header_that_no_rule_knows(self):
        self.expect_violation("reports/data/a.cpp", "#include <boost/any.hpp>\n", "LIBRARIES")

    def test_finds_an_include_not_written_from_the_root(self):
        self.expect_violation("kernels/ops/a.cpp", '#include "op.h"\n', "repository's root")

    def test_finds_names_whose_header_no_include_reaches(self):
        for code, header in (("std::uint64_t a;", "cstdint"), ("int a = errno;", "cerrno"),
                             ("void f() { std::memcpy(a, b, 1); }", "cstring"),
                             ("auto a = std::ranges::sort(b);", "algorithm")):
            with self.subTest(code=code):
                self.expect_violation("tests/a.cpp", f"#include <vector>\n{code}\n", ":4:", f"<{header}>")
                self.expect_clean("tests/a.cpp", f"#include <{header}>\n{code}\n")
        self.expect_clean("tests/a.cpp", "std::size_t a = std::max(b, c);\nauto d = x.sort();\n")

    def test_names_may_be_reached_by_headers_of_the_project(self):
        self.assertEqual(self.check({
            "kernels/runtime/width.h": "#pragma once\n#include <cstdint>\n",
            "kernels/runtime/row.h": '#pragma once\n#include "kernels/runtime/width.h"\nstd::int8_t f();\n',
            "tests/a.cpp": '#include "kernels/runtime/row.h"\nstd::int8_t a;\n'}), (0, []))

    def test_finds_words_of_the_parallel_rooms_in_kernel_identifiers(self):
        for code in ("int rank = 0;", "int world_size();", "struct GradientBucket {};",
                     "int kMaxRanks;"):
            with self.subTest(code=code):
                self.expect_violation("kernels/nn/a.cpp", code + "\n", "never says")

    def test_ignores_those_words_in_comments_strings_and_longer_words(self):
        self.expect_clean("kernels/nn/a.cpp", '// rank\n/* world\n */\nauto s = "bucket";\n'
                          "int franked, worldly, rankine;\n")

    def test_finds_printing_exiting_and_the_environment_below_bench(self):
        for code in ("std::cout << 1;", 'printf("x");', 'fmt::print("x");', "exit(1);",
                     "std::exit(1);", 'auto* v = std::getenv("X");', "std::cerr << 1;"):
            with self.subTest(code=code):
                self.expect_violation("reports/data/a.cpp", f"#include <cstdlib>\n{code}\n", "only bench/")

    def test_ignores_members_and_formatting_that_only_look_alike(self):
        self.expect_clean("reports/data/a.cpp", "int a = snprintf(b, 1, c);\nx.exit(1);\np->exit(2);\n")

    def test_finds_threads_sleeps_and_clocks_in_strategies(self):
        for code in ("std::thread t;", "std::this_thread::sleep_for(x);",
                     "auto t = std::chrono::steady_clock::now();",
                     "auto t = SteadyClock::now();", "double t = steady_s();"):
            with self.subTest(code=code):
                self.expect_violation("parallel/a.cpp", code + "\n", "strategies")
        self.expect_clean("parallel/comm/a.cpp", "std::thread t;\n")

    def test_finds_sources_and_scripts_without_licence_lines(self):
        self.expect_violation("reports/data/a.cpp", "!int a;\n", ":1:", "SPDX")
        self.expect_violation("scripts/a.sh", "!\n", "SPDX")

    def test_finds_a_header_without_pragma_once(self):
        self.expect_violation("reports/data/a.h", "int a();\n", "#pragma once")


if __name__ == "__main__":
    unittest.main()
