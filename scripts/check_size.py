#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps files and functions small, and shows where they grow.

    scripts/check_size.py [ROOT]

Fails when a source has over 500 lines or a function over 60; prints medians and the largest ones.
Functions are found by their braces in code that clang-format laid out; lambdas count as part of the
function around them, tables of data (under one statement in ten lines) do not count.
"""

import pathlib
import re
import statistics
import sys
from typing import Iterator, List, NamedTuple

sys.dont_write_bytecode = True
from check_includes import FOLDERS, SOURCES, code_only  # noqa: E402

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
SHOWN = 5

# What may precede a brace that does not open the body of a function.
NOT_A_FUNCTION = re.compile(r"\s*(?:namespace|class|struct|enum|union|extern|if|for|while|switch|do"
                            r"|else|try|catch)\b")


class Extent(NamedTuple):
    lines: int
    where: str


def is_function(header: str) -> bool:
    """`header`: the code between the last ; { or } and an opening brace."""
    header = re.sub(r"^\s*(?:(?:public|private|protected)\s*:|template\s*<[^{]*?>\s*(?=\w))", "",
                    re.sub(r"#[^\n]*", "", header))
    return "(" in header and not NOT_A_FUNCTION.match(header) and not header.rstrip().endswith("=")


def functions_of(path: str, text: str) -> Iterator[Extent]:
    code = code_only(text)
    depth, inside, begin, first, header_start = 0, None, 0, 0, 0
    for match in re.finditer(r"[{};]", code):
        token, at = match.group(), match.start()
        if token == "{":
            header = code[header_start:at]
            if inside is None and is_function(header):
                inside = depth
                begin = at - len(header.lstrip())
                first = code.count("\n", 0, begin) + 1
            depth += 1
        elif token == "}":
            depth -= 1
            if inside == depth:
                inside = None
                lines = code.count("\n", begin, at) + 1
                if code.count(";", begin, at) * 10 >= lines - 2:
                    yield Extent(lines, f"{path}:{first}")
        header_start = match.end()


def report(kind: str, extents: List[Extent], limit: int) -> bool:
    """Prints the largest; True when one is over the limit."""
    if not extents:
        return False
    extents = sorted(extents, reverse=True)
    median = statistics.median(extent.lines for extent in extents)
    print(f"{len(extents)} {kind}, median {median:g} lines, limit {limit}; the largest:")
    for extent in extents:
        over = extent.lines > limit
        if over or extent in extents[:SHOWN]:
            print(f"  {extent.lines:4d}  {extent.where}{'  OVER THE LIMIT' if over else ''}")
    return extents[0].lines > limit


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    files, functions = [], []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
            files.append(Extent(len(text.splitlines()), path))
            functions.extend(functions_of(path, text))
    over = [report("sources", files, MAX_FILE_LINES),
            report("functions", functions, MAX_FUNCTION_LINES)]
    return 1 if any(over) else 0


if __name__ == "__main__":
    sys.exit(main())
