#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps files, functions, rooms and documents small.

    scripts/check_size.py [--tighten] [ROOT]

Fails when
* a source has over 500 lines or a function over 60
* a room has more lines or files, or the documents have more words, than ROOT/scripts/budget.json grants
* a production header has one user beside its own source, or a production source has fewer than 40
  lines, and budget.json does not excuse it (contracts, and rows of a table)
Prints medians and the largest ones. --tighten lowers budget.json to what is there; a commit of its own
raises a row, by hand, and says for which capability. Without budget.json only the first rule holds.
Functions are found by their braces in code that clang-format laid out; lambdas count as part of the
function around them, tables of data (under one statement in ten lines) do not count.
"""

import json
import pathlib
import re
import statistics
import sys
from typing import Dict, Iterator, List, NamedTuple, Set

sys.dont_write_bytecode = True
from check_includes import FOLDERS, GENERATED, SOURCES, code_only  # noqa: E402

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
FEW_LINES = 40
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


def single_users(texts: Dict[str, str]) -> Dict[str, str]:
    """The headers that one file includes, besides the source of the same name, and that file."""
    users: Dict[str, Set[str]] = {path: set() for path in texts if path.endswith((".h", ".cuh"))}
    for path, text in texts.items():
        for included in re.findall(r'^#include "([^"]+)"', text, re.M):
            if included in users and included.rsplit(".", 1)[0] != path.rsplit(".", 1)[0]:
                users[included].add(path)
    return {header: min(paths) for header, paths in users.items() if len(paths) == 1}


def room_of(path: str) -> str:
    """bench/run/session.cpp: bench/run; a file in the root of a large room: that room."""
    return "/".join(path.split("/")[:-1][:2])


def sizes_of(root: pathlib.Path, lines: Dict[str, int]) -> Dict[str, List[int]]:
    """Lines and files of each room; words of the documents."""
    sizes: Dict[str, List[int]] = {}
    for path, count in lines.items():
        size = sizes.setdefault(room_of(path), [0, 0])
        size[0] += count
        size[1] += 1
    documents = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")]
    sizes["words of documents"] = [sum(len(file.read_text(encoding="utf-8").split())
                                       for file in documents if file.exists()), 0]
    return sizes


def check_budget(root: pathlib.Path, texts: Dict[str, str], tighten: bool) -> bool:
    """Prints what is over the budget; True when something is. `texts`: of production sources."""
    file = root / "scripts" / "budget.json"
    if not file.exists():
        return False
    budget = json.loads(file.read_text(encoding="utf-8"))
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    sizes = sizes_of(root, lines)
    small = sorted(path for path, count in lines.items() if count < FEW_LINES)
    single = single_users(texts)
    if tighten:
        grants = budget["rooms"]
        budget = {"rooms": {room: [min(*pair) for pair in zip(size, grants.get(room, size))]
                            for room, size in sorted(sizes.items())},
                  "small": [path for path in budget["small"] if path in small],
                  "one_user": [path for path in budget["one_user"] if path in single]}
        pairs = re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", json.dumps(budget, indent=1))
        file.write_text(pairs + "\n", encoding="utf-8")
    over = [f"{room}: {size} lines (words) and files, granted are {budget['rooms'].get(room, [0, 0])}"
            for room, size in sorted(sizes.items())
            if any(have > most for have, most in zip(size, budget["rooms"].get(room, [0, 0])))]
    over += [f"{path}: fewer than {FEW_LINES} lines" for path in small if path not in budget["small"]]
    over += [f"{path}: included by {user} alone" for path, user in sorted(single.items())
             if path not in budget["one_user"]]
    print(f"{sum(lines.values())} production lines in {len(lines)} files, headers median "
          f"{statistics.median([count for path, count in lines.items() if path.endswith(('.h', '.cuh'))] or [0]):g}")
    for line in over:
        print(f"OVER THE BUDGET: {line}")
    return bool(over)


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    arguments = [word for word in sys.argv[1:] if word != "--tighten"]
    tighten = len(arguments) < len(sys.argv) - 1
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
    production = {path: text for path, text in texts.items()
                  if not path.startswith("tests/") and path not in GENERATED}
    over.append(check_budget(root, production, tighten))
    return 1 if any(over) else 0


if __name__ == "__main__":
    sys.exit(main())
