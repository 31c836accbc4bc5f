#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules between rooms that docs/architecture.md states and a compiler does not enforce.

    scripts/check_includes.py [ROOT]

* a room includes only the rooms it stands on, also inside a room (FLOORS), and no units (a source
  with its header) include each other in a circle
* a library's headers appear only in their own room
* kernels/ has no identifier that speaks of ranks, worlds or buckets
* only bench/ prints, ends the process or reads the environment (launch/ reads rank variables)
* strategies make no thread, sleep on nothing and ask no clock
* a file includes, itself or by headers of the project, what NAMES lists of the standard library
* sources begin with the two SPDX lines, headers have #pragma once (*-inl.h are read several times)

Prints one line a violation, as PATH:LINE: MESSAGE, and exits with 1 when there is one. tests/ is
exempt from all but the last two and the way includes are written.
"""

import pathlib
import re
import sys
from typing import Iterator, NamedTuple

# ---- the rules, as data ----

# Room -> the other rooms that it may include.
ROOMS = {
    "base": [],
    "kernels/runtime": ["base"],
    "kernels/ops": ["kernels/runtime", "base"],
    "kernels/nn": ["kernels/ops", "kernels/runtime", "base"],
    "parallel/comm": ["kernels/runtime", "base"],
    "parallel/launch": ["parallel/comm", "kernels/runtime", "base"],
    "parallel": ["parallel/comm", "kernels/nn", "kernels/ops", "kernels/runtime", "base"],
    "datasets": ["base"],
    "reports": ["base"],
    "bench": ["reports", "datasets", "parallel", "parallel/comm", "parallel/launch",
              "kernels/nn", "kernels/ops", "kernels/runtime", "base"],
}

# The rooms inside a room, from the lowest up: each may include itself and the rooms before it. "."
# is the room's own folder. A room that is not listed has no rooms inside.
FLOORS = {
    "kernels/runtime": [".", "cuda"],
    "kernels/ops": [".", "cpu", "reference", "onednn", "cuda/kernels", "cuda/library", "cuda/ops"],
    "kernels/nn": ["model", "plan", "."],
    "parallel/comm": ["store", ".", "queue", "shm/peers", "shm/collectives", "shm", "library",
                      "hierarchical", "gloo", "mpi", "cuda"],
    "parallel": [".", "cuda"],
    "reports": ["data", "metrics", "imports", "json", "charts", "pictures", "table", "predict",
                "why", "exports", "gate", "html"],
    "bench": ["host", "options", "plan", "measure", "feed", "rank", "run", "comm",
              "launchers", "commands", ".", "micro", "peers"],
}


class Library(NamedTuple):
    headers: str  # pattern of the text between < and >
    places: str   # pattern of the paths that may include them


# The first match counts. A header without a row is a violation: add the row here.
LIBRARIES = [
    Library(r"fmt/.*", r".*"),
    Library(r"nlohmann/.*", r"(base|kernels/nn|kernels/ops/cuda|datasets|reports|bench)/.*"),
    Library(r"boost/math/.*", r"reports/metrics/.*\.cpp"),
    Library(r"boost/beast/core/detail/base64\.hpp", r"bench/launchers/agent_messages\.cpp"),
    Library(r"dnnl.*|oneapi/.*", r"kernels/ops/.*onednn.*"),
    Library(r"hwloc.*", r"kernels/runtime/.*\.cpp"),
    Library(r"omp\.h", r"kernels/(runtime|ops)/.*"),
    Library(r"cuda.*|cublas.*|cudnn.*|nvml\.h|cub/.*|thrust/.*", r".*/cuda/.*"),
    Library(r"nvtx3/.*", r"kernels/runtime/cuda/.*"),
    Library(r"nccl.*", r"parallel/comm/cuda/nccl\.cpp"),
    Library(r"mpi\.h", r"parallel/comm/mpi/.*"),
    Library(r"gloo/.*", r"(parallel/comm/gloo|bench/peers)/.*"),
    Library(r"(zlib|zconf)\.h", r"(datasets|bench)/.*\.cpp"),
    Library(r"(png|turbojpeg|jpeglib)\.h", r"(datasets|bench/micro)/.*\.cpp"),
    Library(r"openssl/.*", r"(datasets|parallel/comm/store)/.*\.cpp"),
    Library(r"curl/.*", r"(datasets|bench)/.*\.cpp|datasets/curl_library\.h"),
    Library(r"benchmark/.*", r"bench/micro/.*"),
    Library(r"[a-z_0-9]+", r".*"),  # the C++ standard library
    Library(r"(sys|linux|net|netinet|arpa|asm|gnu)/.*", r".*"),
    Library(r"(unistd|fcntl|sched|pthread|dlfcn|errno|signal|poll|spawn|time|termios|netdb|ifaddrs"
            r"|fenv|malloc|limits|stdlib|string|endian|immintrin|cpuid)\.h", r".*"),
]

# Words that no identifier in kernels/ may contain. The phase observer is the exception: a
# strategy's words pass through its interface, which is below all rooms that use it.
KERNEL_WORDS = {"rank", "ranks", "world", "worlds", "bucket", "buckets"}
KERNEL_WORDS_ALLOWED = r"kernels/runtime/phase\..*"


class Ban(NamedTuple):
    code: str     # pattern in code without comments and strings
    where: str    # pattern of the paths to which it applies
    but: str      # pattern of the exceptions
    message: str


BANS = [
    # oneDNN's own variables must stand where the program limits its instructions.
    Ban(r"\b(?:secure_)?getenv\b|\benviron\b", r"(?!bench/).*",
        r"parallel/launch/.*|kernels/ops/onednn/onednn_backend\.cpp",
        "only bench/ reads the environment (launch/ the rank variables)"),
    Ban(r"\b(?:v?f?printf|v?dprintf|f?puts|f?putc|putchar|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b"
        r"|\bfmt::print\b", r"(?!bench/).*", r"", "only bench/ prints: throw, or hand data up"),
    Ban(r"(?<![\w.>])(?:exit|quick_exit|_Exit)\s*\(", r"(?!bench/).*", r"",
        "only bench/ ends the process: throw"),
    # Between fork and exec a child has no other way to end.
    Ban(r"(?<![\w.>])_exit\s*\(", r"(?!bench/).*", r"parallel/launch/.*",
        "only bench/ ends the process: throw"),
    Ban(r"\bstd::(?:jthread|thread|async)\b|\bpthread_create\b", r"parallel/[^/]*",
        r"parallel/replica_group\..*|.*thread_replica_group\..*",
        "strategies make no thread: use ReplicaGroup"),
    Ban(r"\bsleep_(?:for|until)\b|\b(?:u|nano)?sleep\s*\(", r"parallel/[^/]*", r"",
        "strategies sleep on nothing: wait through Stream, Work or Loader"),
    Ban(r"[cC]lock::now\b|\bclock_gettime\b|\bgettimeofday\b"
        r"|\b(?:steady_s|utc_time)\s*\(", r"parallel/[^/]*", r"",
        "strategies ask no clock: the device's clock is the device's to tell"),
]

# Names that the library of one compiler declares in other headers, too, and that of the next does
# not: GCC 13 and 14 each removed some.
NAMES = {
    "algorithm": r"\bstd::(?:(?:stable_)?sort|nth_element|(?:min|max|minmax)_element|find_if(?:_not)?|reverse"
                 r"|(?:any|all|none)_of|count(?:_if)?|copy_(?:n|if)|transform|(?:lower|upper)_bound"
                 r"|clamp|unique|shuffle|ranges::(?:sort|find|find_if|count"
                 r"|count_if|any_of|all_of|none_of|replace|reverse|(?:min|max)_element))\b",
    "cerrno": r"\berrno\b",
    "cmath": r"\bstd::(?:sqrt|ceil|floor|round|lround|pow|exp|log2?|isnan|isfinite|isinf)\b",
    "cstddef": r"\bstd::(?:byte|ptrdiff_t|max_align_t)\b",
    "cstdint": r"\bstd::u?int(?:_fast|_least)?(?:8|16|32|64|ptr|max)_t\b",
    "cstdlib": r"\bstd::(?:strto\w+|getenv|abort|exit|_Exit|malloc|free)\b",
    "cstring": r"\bstd::(?:mem(?:cpy|move|set|cmp|chr)|str(?:len|n?cmp|error|chr|rchr))\b",
    "limits": r"\bstd::numeric_limits\b",
    "stdexcept": r"\bstd::(?:runtime_error|logic_error|invalid_argument|out_of_range)\b",
}

INCLUDE = r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)'
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inc"}
SCRIPTS = {".cmake", ".sh", ".py"}
FOLDERS = ["base", "kernels", "parallel", "datasets", "reports", "bench", "tests", "cmake", "scripts"]
GENERATED = {"bench/host/version.h"}
SPDX = ["SPDX-FileCopyrightText: The ddpbench authors", "SPDX-License-Identifier: Apache-2.0"]

# ---- the checks ----


class Violation(NamedTuple):
    path: str
    line: int
    message: str


def room_of(path: str) -> str:
    """The longest room that holds `path`; empty for tests/, cmake/ and scripts/."""
    return max((r for r in ROOMS if path.startswith(r + "/")), key=len, default="")


def floor_of(room: str, path: str) -> str:
    """The room inside `room` with `path`: "." or a folder of FLOORS[room]; empty when FLOORS
    does not know the folder."""
    folder = str(pathlib.PurePosixPath(path).parent.relative_to(room))
    return folder if folder in FLOORS[room] else ""


def code_only(text: str) -> str:
    """`text` with comments and the contents of literals blanked, line breaks kept."""
    def blank(match: re.Match) -> str:
        token = match.group()
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1]

    literal = (r'R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
               r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")
    return re.sub(r"//[^\n]*|/\*.*?\*/|" + literal, blank, text, flags=re.DOTALL)


def words_of(identifier: str) -> set:
    """"kBucketCount" and "bucket_count" -> {"bucket", "count", ...}."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    return {part.lower() for part in parts}


def check_project_include(root: pathlib.Path, path: str, target: str) -> str:
    if target not in GENERATED and not (root / target).is_file():
        return f'"{target}" is no file: includes are written from the repository\'s root'
    room = room_of(path)
    if not room:
        return ""
    allowed = [room] + ROOMS[room]
    if room_of(target) not in allowed:
        return f'{room} may not include "{target}", only {", ".join(allowed)}'
    if room_of(target) != room or room not in FLOORS:
        return ""
    own, other = floor_of(room, path), floor_of(room, target)
    floors = FLOORS[room]
    if own and other and floors.index(other) > floors.index(own):
        return f'"{own}" of {room} may not include "{target}": "{other}" stands above it'
    return ""


def check_library_include(path: str, target: str) -> str:
    if not room_of(path):
        return ""
    for library in LIBRARIES:
        if re.fullmatch(library.headers, target):
            if re.fullmatch(library.places, path):
                return ""
            return f"<{target}> may be included only in {library.places}"
    return f"<{target}> is in no row of LIBRARIES in scripts/check_includes.py"


def check_includes(root: pathlib.Path, path: str, text: str) -> Iterator[Violation]:
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(INCLUDE, line)
        if not match:
            continue
        quoted, angled = match.groups()
        message = (check_project_include(root, path, quoted) if quoted
                   else check_library_include(path, angled))
        if message:
            yield Violation(path, number, message)


class Reached:
    """The headers of NAMES that a file includes, itself or by headers of the project."""

    def __init__(self, root: pathlib.Path):
        self.root, self.known = root, {}

    def of(self, path: str) -> set:
        if path not in self.known:
            self.known[path] = set()  # ends a cycle
            file = self.root / path
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            found = set()
            for quoted, angled in re.findall(INCLUDE, text, re.MULTILINE):
                found |= self.of(quoted) if quoted else NAMES.keys() & {angled}
            self.known[path] = found
        return self.known[path]


def check_place(path: str) -> Iterator[Violation]:
    room = room_of(path)
    if room in FLOORS and not floor_of(room, path):
        yield Violation(path, 1, f"its folder is not among the rooms of {room}: "
                                 f"{', '.join(FLOORS[room])}")


class Units:
    """The units (a source with its header), and which units each includes."""

    def __init__(self, root: pathlib.Path):
        self.root, self.edges = root, {}

    def add(self, path: str, text: str) -> None:
        unit = path.rsplit(".", 1)[0]
        includes = self.edges.setdefault(unit, {})
        for target, _ in re.findall(INCLUDE, text, re.MULTILINE):
            other = target.rsplit(".", 1)[0]
            if other != unit and (self.root / target).is_file():
                includes.setdefault(other, path)

    def cycles(self) -> Iterator[Violation]:
        """One violation for each cycle, at one of its files, with the shortest way round."""
        seen = set()
        for unit in sorted(self.edges):
            way = [] if unit in seen else self.way_back(unit)
            if way:
                seen.update(way)
                yield Violation(self.edges[unit][way[1]], 1,
                                "units include each other in a circle: " + " -> ".join(way))

    def way_back(self, unit: str) -> list:
        """The shortest way from `unit` back to itself; empty when there is none."""
        came_from, front = {}, [unit]
        while front:
            following = []
            for at in front:
                for other in sorted(self.edges.get(at, {})):
                    if other == unit:
                        way = [unit, at]
                        while way[-1] != unit:
                            way.append(came_from[way[-1]])
                        return way[::-1]
                    if other not in came_from:
                        came_from[other] = at
                        following.append(other)
            front = following
        return []


def check_names(path: str, code: str, reached: set) -> Iterator[Violation]:
    for header, names in NAMES.items():
        match = None if header in reached else re.search(names, code)
        if match:
            yield Violation(path, code.count("\n", 0, match.start()) + 1,
                            f"{match.group()} needs #include <{header}>")


def check_words(path: str, code: str) -> Iterator[Violation]:
    if not path.startswith("kernels/") or re.fullmatch(KERNEL_WORDS_ALLOWED, path):
        return
    for number, line in enumerate(code.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for identifier in re.findall(r"[A-Za-z_]\w*", line):
            for word in sorted(words_of(identifier) & KERNEL_WORDS):
                yield Violation(path, number, f"kernels/ never says '{word}' ({identifier})")


def check_bans(path: str, code: str) -> Iterator[Violation]:
    if not room_of(path):
        return
    for ban in BANS:
        if not re.fullmatch(ban.where, path) or re.fullmatch(ban.but, path):
            continue
        for number, line in enumerate(code.splitlines(), 1):
            match = re.search(ban.code, line)
            if match:
                yield Violation(path, number, f"{match.group().strip(' (')}: {ban.message}")


def check_opening(path: str, text: str) -> Iterator[Violation]:
    lines = text.splitlines()
    first = 1 if lines and lines[0].startswith("#!") else 0
    mark = "//" if pathlib.PurePath(path).suffix in SOURCES else "#"
    for offset, wanted in enumerate(SPDX):
        number = first + offset
        if number >= len(lines) or lines[number] != f"{mark} {wanted}":
            yield Violation(path, number + 1, f"expected '{mark} {wanted}' here")
            return
    if path.endswith(".h") and not path.endswith("-inl.h") and "#pragma once" not in lines:
        yield Violation(path, 1, "a header needs #pragma once")


def check_tree(root: pathlib.Path) -> Iterator[Violation]:
    reached, units = Reached(root), Units(root)
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.name == "CMakeLists.txt" or file.suffix in SCRIPTS:
                yield from check_opening(path, file.read_text(encoding="utf-8"))
            if file.suffix in SOURCES:
                text = file.read_text(encoding="utf-8")
                code = code_only(text)
                yield from check_opening(path, text)
                yield from check_includes(root, path, text)
                yield from check_place(path)
                if room_of(path):
                    units.add(path, text)
                yield from check_names(path, code, reached.of(path))
                yield from check_words(path, code)
                yield from check_bans(path, code)
    yield from units.cycles()


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    violations = list(check_tree(root))
    for violation in violations:
        print(f"{violation.path}:{violation.line}: {violation.message}")
    if violations:
        print(f"check_includes.py: {len(violations)} violations", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
