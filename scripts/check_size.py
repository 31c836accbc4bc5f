#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps files and functions small, and shows where they grow.

    scripts/check_size.py [--hints] [ROOT]

Fails when a source has over 500 lines or a function over 60; prints medians and the largest ones.
As a hint, not a failure, it counts sources below 30 lines and headers with a single user beside
their own source, and names them with --hints: is each an idea of its own?
Functions are found by their braces in code that clang-format laid out; lambdas count as part of the
function around them, tables of data (under one statement in ten lines) do not count.
"""

import pathlib
import re
import statistics
import sys
from typing import Dict, Iterator, List, NamedTuple, Set

sys.dont_write_bytecode = True
from check_includes import FOLDERS, SOURCES, code_only  # noqa: E402

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
FEW_LINES = 30
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
    # A macro that needs no semicolon may stand before the namespace.
    if re.search(r"\bnamespace(?:\s+[\w:]+)?\s*$", header):
        return False
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


def hint(kind: str, names: List[str], total: int, named: bool) -> None:
    print(f"{len(names)} of {total} {kind}" + (":" if named and names else ""))
    for name in sorted(names) if named else []:
        print(f"        {name}")


def single_users(texts: Dict[str, str]) -> List[str]:
    """The headers that one file includes, besides the source of the same name."""
    users: Dict[str, Set[str]] = {path: set() for path in texts if path.endswith((".h", ".cuh"))}
    for path, text in texts.items():
        for included in re.findall(r'^#include "([^"]+)"', text, re.M):
            if included in users and included.rsplit(".", 1)[0] != path.rsplit(".", 1)[0]:
                users[included].add(path)
    return [f"{header} <- {min(paths)}" for header, paths in users.items() if len(paths) == 1]


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    arguments = [word for word in sys.argv[1:] if word != "--hints"]
    named = len(arguments) < len(sys.argv) - 1
    root = pathlib.Path(arguments[0]) if arguments else default
    files, functions, texts = [], [], {}
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
            texts[path] = text
            files.append(Extent(len(text.splitlines()), path))
            functions.extend(functions_of(path, text))
    over = [report("sources", files, MAX_FILE_LINES),
            report("functions", functions, MAX_FUNCTION_LINES)]
    short = [extent.where for extent in files if extent.lines < FEW_LINES]
    hint(f"sources below {FEW_LINES} lines", short, len(files), named)
    headers = sum(path.endswith((".h", ".cuh")) for path in texts)
    hint("headers with one user beside their own source", single_users(texts), headers, named)
    return 1 if any(over) else 0


if __name__ == "__main__":
    sys.exit(main())
