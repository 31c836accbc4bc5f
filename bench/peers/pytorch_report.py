#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Trains with PyTorch what ddpbench trains and writes a ddpbench report.

Same network, initial weights, data order, batches and optimizer; single, nn.DataParallel and
DistributedDataParallel, on CPU and CUDA devices. docs/peers.md says how the two are compared.

Exit codes as ddpbench's: 0 done, 2 usage or data, 3 PyTorch or something asked for is not here,
4 a process died or stalled, 130 interrupted (the report of what was done is written).
"""
import os
import sys
import time

sys.dont_write_bytecode = True

from pytorch_peer import (catalog, content, environment, launch, options as option_table,  # noqa: E402
                          plan, report, runs)
from pytorch_peer.errors import (INTERRUPTED, PeerError, UnavailableError,  # noqa: E402
                                 UsageError)


def check_outputs(options):
    """Before any training; again where it is written."""
    for path in (options["json"], options["save_model"]):
        if path is None:
            continue
        if os.path.exists(path) and not options["force"]:
            raise UsageError(f"{path} exists; give --force to overwrite it")
        folder = os.path.dirname(os.path.abspath(path))
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{path}: {folder} is no folder that can be written to")


def find_torch():
    found = launch.probe()
    if "error" in found:
        raise UnavailableError(
            f"PyTorch is not here: {found['error']} ({sys.executable}). Install it (Debian: "
            "python3-torch), or start this script with an interpreter that has it")
    return found


def say(run):
    """Prints a line about a run."""
    devices = f"{run['world_size']} device{'' if run['world_size'] == 1 else 's'}"
    text = f"{run['strategy']} on {devices}, repetition {run['repetition'] + 1}: "
    if run["status"] == "ok":
        step, last = run["step"]["time_s"], run["epochs"][-1]
        loss = "diverged" if last["train_loss"] is None else f"{last['train_loss']:.4f}"
        spread = "-" if step["iqr"] is None else f"{step['iqr'] * 1e3:.2f}"
        text += (f"step {step['median'] * 1e3:.2f} ms (IQR {spread}), "
                 f"{run['throughput']['samples_per_s']:.0f} samples/s, train loss {loss}, "
                 f"test accuracy {last['test_accuracy'] * 100:.2f} %")
    else:
        reason = run["error"]["message"] if "error" in run else run.get("reason", "")
        text += run["status"] + (f": {reason}" if reason else "")
    return text


def make_runs(options, planned, data, found, interrupt):
    """Returns (run sections, exit code of the first failure)."""
    made, code = [], 0
    order = plan.schedule(planned, options["repetitions"], options["seed"])
    for sequence, (repetition, index) in enumerate(order):
        cell = planned[index]
        started_at = report.now()
        outcome = None if cell["skipped"] else launch.run(cell["spec"], interrupt)
        run = runs.run_section(cell, outcome, options, data, found)
        run.update(cell=index, repetition=repetition, sequence=sequence, started_at=started_at)
        made.append(run)
        code = code or (outcome.exit_code if outcome else 0)
        if not options["quiet"]:
            print(say(run), flush=True)
        if interrupt.happened:
            break
    return made, INTERRUPTED if interrupt.happened else code


def execute(arguments):
    options = option_table.resolve(arguments, os.environ)
    if options["json"] is None:
        options["json"] = time.strftime("ddpbench-%Y%m%dT%H%M%SZ-pytorch.json", time.gmtime())
    check_outputs(options)
    network = content.describe(option_table.model_path(options["model"]))
    data = plan.dataset(options, network)
    found = find_torch()
    catalog.check_can_draw(data)
    asked, options["device"] = options["device"], plan.check_device(options, found)
    head = {"generator": environment.generator(), "started_at": report.now(),
            "argv": [sys.argv[0], *arguments], "environment": environment.environment(found)}
    planned = plan.cells(options, options["device"], found, network, data)
    if options["device"] == "cpu" and asked == "auto":
        print("device: cpu (--device=auto: PyTorch finds no CUDA device)")
    interrupt = launch.Interrupt()
    made, code = make_runs(options, planned, data, found, interrupt)
    report.write(report.assemble(head, options, made, code == INTERRUPTED), options["json"],
                 options["force"])
    print(f"report: {options['json']}", flush=True)
    return code


def main():
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        print(f"{__doc__}\n{option_table.help_text()}\n\nEvery option has a variable "
              "(DDPBENCH_BATCH_SIZE) and a key in configuration files, as ddpbench's.")
        return 0
    try:
        return execute(arguments)
    except PeerError as error:
        print(f"pytorch_report: {error}", file=sys.stderr)
        return error.exit_code
    except FileExistsError as error:
        print(f"pytorch_report: {error.filename2 or error.filename} exists; give --force to overwrite",
              file=sys.stderr)
        return UsageError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
