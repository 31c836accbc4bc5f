#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that every line of scripts/sanitized_tests.txt names tests that there are.

Arguments: the file, and the programs that it names.
"""

import pathlib
import subprocess
import sys


def main():
    programs = {pathlib.Path(path).name: path for path in sys.argv[2:]}
    lines = [line.split() for line in pathlib.Path(sys.argv[1]).read_text().splitlines()
             if line and not line.startswith("#")]
    wrong = []
    for tools, program, pattern in lines:
        if program not in programs or not set(tools.split(",")) <= {"memcheck", "racecheck"}:
            wrong.append(f"{program} or {tools} is unknown")
            continue
        listed = subprocess.run([programs[program], "--gtest_list_tests", f"--gtest_filter={pattern}"],
                                capture_output=True, text=True, check=True).stdout
        if not any(line.startswith("  ") for line in listed.splitlines()):
            wrong.append(f"{program} has no test {pattern}")
    print("\n".join(wrong) or f"{len(lines)} lines name tests")
    return 1 if wrong or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
