#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Measures strategies over 2, 3, 4 and 8 hosts, predicts 3, 4 and 8 from 2, and prints the errors.

    scripts/prediction_study.py FOLDER [--program=FILE] [--hosts=2,3] [--only=NETWORK,...] [--quick]
        [--patience=S]

The hosts are namespaces of this machine (tests/netlab/lab.py), which needs root. Reports go to FOLDER,
and those that are there already are not made again; without a missing one this only predicts and
prints the table of docs/prediction.md. --quick measures ddp alone over gloo at 50 Mbit/s on 2 and 3 hosts,
without waiting for a quiet machine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "network_study"))
sys.dont_write_bytecode = True
import measure  # noqa: E402
import plan  # noqa: E402

FITTED = 2
COUNTS = (2, 3, 4, 8)
# Two cores also carry the links: with 8 of 100 Mbit/s the kernel's queues took half of both.
RATES = ("50mbit", "25mbit")
QUEUE = "300ms"  # no frame is lost: what is sent again after a loss is in no model
# Open MPI asks before it sends more. On links so slow the answer would stand behind 20 ms of data.
EAGER = ("--mca", "btl_tcp_eager_limit", "8388608", "--mca", "btl_tcp_rndv_eager_limit", "8388608")
# On n hosts each takes an n-th: two cores carry all hosts, so compute takes as long on any number.
BATCH = 240
CYCLE = 3  # of localsgd
STEPS, QUICK_STEPS = 2 * CYCLE, CYCLE
REPLICATED = ("--strategy=ddp,zero2,localsgd", f"--sync-every={CYCLE}", "--comm-hook=none,bf16,int8")


def command(backend, count, arguments=REPLICATED, kind="replicated", servers=0):
    return plan.Command(f"{kind}-{backend}-{count}", (count,),
                        (*arguments, f"--batch-size={BATCH // count}", "--lr=0.001"), backend, servers,
                        plan.NARROW)


def networks(counts):
    made = []
    for key in RATES:
        commands = [command(backend, count) for backend in ("gloo", "mpi") for count in counts]
        commands += [command("gloo", count, ("--strategy=ps", "--servers=1"), "ps", 1)
                     for count in counts]
        made.append(plan.Network(key, key, key, commands, queue=QUEUE, mpirun=EAGER))
    return made


def quick():
    return [plan.Network("50mbit", "50mbit", "50mbit", [
        command("gloo", count, ("--strategy=ddp",)) for count in (FITTED, 3)])]


def setting(run):
    """What a row of the table is called."""
    hook = run["strategy_options"].get("comm_hook", "none")
    return run["strategy"] + ("" if hook == "none" else f" {hook}")


def steps_of(path):
    """{setting: seconds of the median step} of a report, for each number of hosts."""
    report = json.loads(path.read_text(encoding="utf-8"))
    return {(setting(run), run["world_size"]): run["step"]["time_s"]["median"]
            for run in report["runs"] if run["status"] == "ok"}


def predict(program, fitted, counts):
    path = fitted.with_suffix(".predicted.json")
    subprocess.run([program, "predict", str(fitted), f"--json={path}", "--force",
                    "--gpus=" + ",".join(map(str, counts))], check=True, capture_output=True)
    return steps_of(path)


def compare(study, network, log):
    """Rows [network, backend, setting, hosts, predicted ms, measured ms, error] of what was measured."""
    rows = []
    for fit in network.commands:
        if fit.workers != (FITTED,) or not study.report(network, fit).exists():
            continue
        others = [one for one in network.commands
                  if one.backend == fit.backend and one.workers != fit.workers
                  and one.name.split("-")[0] == fit.name.split("-")[0]
                  and study.report(network, one).exists()]
        if not others:
            continue
        predicted = predict(study.program, study.report(network, fit),
                            [one.workers[0] for one in others])
        for one in others:
            for key, seconds in steps_of(study.report(network, one)).items():
                if key not in predicted:
                    log(f"not predicted: {key[0]} on {key[1]} hosts, {network.key}, {fit.backend}")
                    continue
                rows.append([network.key, fit.backend, *key, predicted[key], seconds,
                             predicted[key] / seconds - 1])
    return sorted(rows, key=lambda row: row[:4])


def table(rows):
    """An error in percent for each network and number of hosts, a line for each engine and strategy."""
    columns = sorted({(network, hosts) for network, _, _, hosts, *_ in rows},
                     key=lambda column: (-int(column[0].removesuffix("mbit")), column[1]))
    lines = ["| engine | strategy | " + " | ".join(f"{network}, {hosts}" for network, hosts in columns)
             + " |",
             "|---" * (2 + len(columns)) + "|"]
    for engine, name in sorted({(row[1], row[2]) for row in rows}):
        errors = {(row[0], row[3]): row[-1] for row in rows if (row[1], row[2]) == (engine, name)}
        cells = [f"{100 * errors[column]:+.1f}" if column in errors else "" for column in columns]
        lines.append(f"| {engine} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows):
    errors = [abs(row[-1]) for row in rows]
    return (f"mean error {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %, of "
            f"{len(errors)} rows")


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "cpu-release" / "bin" / "ddpbench")
    parser.add_argument("--hosts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--patience", type=float, default=30)
    return parser.parse_args()


def main():
    options = parse()
    counts = sorted({FITTED, *map(int, options.hosts.split(","))})
    study = measure.Study(options.folder, options.program,
                          QUICK_STEPS if options.quick else STEPS,
                          0 if options.quick else options.patience)
    wanted = set(filter(None, options.only.split(",")))
    rows = []
    for network in quick() if options.quick else networks(counts):
        if not wanted or network.key in wanted:
            study.make(network)
            rows += compare(study, network, print)
    if not rows:
        sys.exit("prediction_study.py: nothing was measured beside the runs on 2 hosts")
    print(table(rows))
    for engine in sorted({row[1] for row in rows}):
        print(f"{engine}: {summary([row for row in rows if row[1] == engine])}")
    print(f"all: {summary(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
