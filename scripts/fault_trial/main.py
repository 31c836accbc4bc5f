#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""See ../fault_trial.sh."""
import argparse
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import input_faults
import limit_faults
import process_faults
from trial import Miss, Skip, Trial

# What is tried, and its share of the time. Joined worlds come last.
KINDS = {
    "rank-hit": (process_faults.rank_hit, 5),
    "supervisor-hit": (process_faults.supervisor_hit, 2),
    "job-stopped": (process_faults.job_stopped, 3),
    "supervisor-stopped": (process_faults.supervisor_stopped, 1.5),
    "comm-hit": (process_faults.comm_hit, 1),
    "tune-hit": (process_faults.tune_hit, 1),
    "resume": (process_faults.resume, 1.5),
    "one-report": (process_faults.one_report, 0.5),
    "closed-descriptors": (limit_faults.closed_descriptors, 0.5),
    "open-files": (limit_faults.open_files, 1),
    "address-space": (limit_faults.address_space, 1),
    "file-size": (limit_faults.file_size, 0.5),
    "processor-time": (limit_faults.processor_time, 0.5),
    "processes": (limit_faults.processes, 0.5),
    "mutated-report": (input_faults.mutated_report, 2),
    "mutated-configuration": (input_faults.mutated_configuration, 1.5),
    "mutated-network": (input_faults.mutated_network, 1.5),
    "mutated-data": (input_faults.mutated_data, 1),
    "mutated-weights": (input_faults.mutated_weights, 1),
    "joined-environment": (process_faults.joined_environment, 1.5),
    "joined-torchrun": (process_faults.joined_torchrun, 1.5),
    "mpirun": (process_faults.mpirun, 1),
    "engine-rank-hit": (process_faults.engine_rank_hit, 1.5),
    "stall": (process_faults.stall, 1),
    "mpirun-engine": (process_faults.mpirun_engine, 1),
}
# Need the modules of Gloo and MPI, and mpirun.
ENGINE_KINDS = {"engine-rank-hit": "gloo", "stall": "gloo", "mpirun-engine": "mpi"}


def parse():
    parser = argparse.ArgumentParser(prog="fault_trial.sh")
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("minutes", nargs="?", type=float, default=20)
    parser.add_argument("--default-program", help=argparse.SUPPRESS)
    parser.add_argument("--program")
    parser.add_argument("--sanitized")
    parser.add_argument("--only", help="kinds, separated by commas: " + ", ".join(KINDS))
    parser.add_argument("--repeat", metavar="KIND:NUMBER")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="N trials, each of the next kind, in place of MINUTES")
    parser.add_argument("--keep", action="store_true", help="keep the folders of misses")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program or options.default_program)
    if options.sanitized:
        options.sanitized = os.path.abspath(options.sanitized)
    for program in filter(None, (options.program, options.sanitized)):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is no program; build it, or give --program")
    options.kinds = options.only.split(",") if options.only else list(KINDS)
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kinds: {', '.join(unknown)}")
    if not options.only:
        options.kinds = [kind for kind in options.kinds if is_here(kind, options.program)]
    return options


def is_here(kind, program):
    """Whether what the kind needs is installed; says so where it is not."""
    module = ENGINE_KINDS.get(kind)
    folder = pathlib.Path(program).resolve().parent.parent / "lib/ddpbench"
    if module and not (folder / f"libddpbench_{module}.so").exists():
        print(f"{kind}: no {module} module beside the program, left out")
        return False
    if kind.startswith("mpirun") and not shutil.which("mpirun"):
        print(f"{kind}: mpirun is not installed, left out")
        return False
    return True


def attempt(options, kind, number, counts):
    """(what, why): "survived", "missed" or "skipped". Adds to the counts of the kind."""
    trial = Trial(options.program, options.seed, kind, number, options.sanitized)
    keep = False
    try:
        KINDS[kind][0](trial)
        trial.expect_nothing_left()
        counts["survived"] += 1
        return "survived", ""
    except Skip as skip:
        counts["skipped"] += 1
        return "skipped", str(skip)
    except Miss as miss:
        keep = options.keep
        counts["missed"] += 1
        return "missed", str(miss) + (f" [{trial.folder}]" if keep else "")
    finally:
        counts["sanitized"] += trial.sanitized_inputs
        for pid in trial.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        if not keep:
            trial.remove()


def machine():
    version = subprocess.run(["uname", "-sr"], capture_output=True, text=True, check=True).stdout
    return f"{len(os.sched_getaffinity(0))} processors, {version.strip()}"


def print_table(counts):
    print(f"\n{'kind':<24}{'tried':>7}{'survived':>10}{'missed':>8}{'no effect':>11}"
          f"{'sanitized':>11}")
    total = collections.Counter()
    for kind, count in counts.items():
        total += count
        print_row(kind, count)
    print_row("all", total)
    return total["missed"]


def print_row(kind, count):
    tried = count["survived"] + count["missed"]
    print(f"{kind:<24}{tried:>7}{count['survived']:>10}{count['missed']:>8}"
          f"{count['skipped']:>11}{count['sanitized']:>11}")


def let_programs_hear_signals():
    """Under nohup SIGHUP is ignored, in the background of a script SIGINT and SIGQUIT, and programs
    would inherit that. What has a handler starts with the default."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main():
    options = parse()
    let_programs_hear_signals()
    if options.repeat:
        kind, _, number = options.repeat.partition(":")
        what, why = attempt(options, kind, int(number), collections.Counter())
        print(what, why)
        return 1 if what == "missed" else 0
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    span = f"{options.jobs} jobs" if options.jobs else f"{options.minutes:g} minutes"
    print(f"{version}; seed {options.seed}, {span}; {machine()}", flush=True)
    counts = {}
    try:
        (try_jobs if options.jobs else try_all)(options, counts)
    except KeyboardInterrupt:
        print("\ninterrupted; until then:", flush=True)
        print_table(counts)
        return 130
    return 1 if print_table(counts) > 0 else 0


def try_one(options, kind, number, counts):
    what, why = attempt(options, kind, number, counts[kind])
    if what == "missed":
        print(f"missed {kind}:{number} (seed {options.seed}): {why}", flush=True)


def try_jobs(options, counts):
    """--jobs: the kinds in turn, so that no kind's trials come one behind the other."""
    for kind in options.kinds:
        counts[kind] = collections.Counter()
    for job in range(options.jobs):
        try_one(options, options.kinds[job % len(options.kinds)], job // len(options.kinds), counts)


def try_all(options, counts):
    """Adds what became of each kind's trials to `counts`; each kind takes its share of the time."""
    share_s = 60 * options.minutes / sum(KINDS[kind][1] for kind in options.kinds)
    for kind in options.kinds:
        counts[kind] = collections.Counter()
        end = time.monotonic() + share_s * KINDS[kind][1]
        number = 0
        while number == 0 or time.monotonic() < end:
            try_one(options, kind, number, counts)
            number += 1


if __name__ == "__main__":
    sys.exit(main())
