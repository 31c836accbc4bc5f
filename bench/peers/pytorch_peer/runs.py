# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Runs as a ddpbench report has them (reports/schema/report-1.schema.json)."""
import math

from . import environment, figures
from .environment import put

ENDED = "the run ended before it was done"
NOT_TIMED = "no timed step was finished"
UNVERIFIED = "a PyTorch run has no reference; docs/peers.md says how its weights are compared"
HOST_ONLY = "events within the step would lengthen it on a GPU"
DDP_BACKWARD = "its all-reduces run within backward, and PyTorch does not tell them apart"
DIVERGED = "training diverged: the loss is not a finite number"
PHASES = ("data_wait_s", "forward_s", "backward_s", "optimizer_s", "comm_s", "comm_exposed_s",
          "overlap_ratio", "loss_s")


def missing_reason(run):
    return {"failed": "the run failed", "skipped": "the run was skipped",
            "interrupted": "the run was interrupted"}.get(run["status"], ENDED)


def phase_reason(phase, spec):
    """Says why PyTorch gives no such figure; None where it does."""
    if spec["device"] == "cuda" and phase != "data_wait_s":
        return HOST_ONLY
    if spec["strategy"] == "ddp" and phase in ("backward_s", "comm_s", "comm_exposed_s",
                                               "overlap_ratio"):
        return DDP_BACKWARD
    if phase == "overlap_ratio":
        return "no communication"
    return None


def phases(spec, samples, otherwise):
    """`samples`: for each phase, one value per step."""
    section = {}
    alone = spec["strategy"] == "single"
    for phase in PHASES:
        value, reason = None, phase_reason(phase, spec)
        if alone and phase in ("comm_s", "comm_exposed_s"):
            value = 0.0
        elif reason is None and samples.get(phase):
            value = figures.median(samples[phase])
        put(section, phase, value, reason or otherwise)
    return section


def slowest(results, key):
    """Returns each step's maximum over ranks, for the steps that all ranks finished."""
    return [max(values) for values in zip(*(result[key] for result in results))]


def slowest_phases(results):
    names = set().union(*(result["phases"] for result in results)) if results else ()
    return {name: [max(values) for values in
                   zip(*(result["phases"].get(name, []) for result in results))] for name in names}


def step_section(spec, samples, otherwise):
    section = {"warmup": spec["warmup_steps"], "warmup_steady": None,
               "warmup_steady_reason": "the peer's warm-up has a fixed number of steps",
               "count": len(samples)}
    put(section, "time_s", figures.summary(samples) if samples else None, otherwise)
    section["samples_s"] = samples
    return section


def epoch_rows(results):
    """Sums are over ranks; times are from the first begin to the last end."""
    rows = []
    for parts in zip(*(result["epochs"] for result in results)):
        samples = sum(part["samples"] for part in parts)
        seconds = max(part["end"] for part in parts) - min(part["begin"] for part in parts)
        counted = sum(part["counted"] for part in parts)
        loss = sum(part["loss_sum"] for part in parts) / max(counted, 1)
        row = {"epoch": parts[0]["epoch"], "time_s": seconds, "samples": samples,
               "samples_per_s": samples / seconds}
        put(row, "train_loss", loss if math.isfinite(loss) else None, DIVERGED)
        row["train_accuracy"] = sum(part["correct"] for part in parts) / max(counted, 1)
        tested = sum(part["test_counted"] for part in parts)
        put(row, "test_accuracy",
            sum(part["test_correct"] for part in parts) / tested if tested else None,
            "the network's loss ignores all labels of the test samples")
        rows.append(row)
    return rows


def time_to_accuracy(target, run, otherwise):
    """The training time up to the first epoch that reached the target; evaluation is left out."""
    section, seconds, epochs = {"target": target}, 0.0, run["epochs"]
    for epoch in epochs:
        seconds += epoch["time_s"]
        if figures.reaches(epoch["test_accuracy"], target):
            section["train_s"] = seconds
            return section
    reason = otherwise
    if run["status"] == "ok":
        best = math.floor(1e4 * max(epoch["test_accuracy"] for epoch in epochs)) / 100
        count = f"{len(epochs)} epochs: at best" if len(epochs) > 1 else "1 epoch:"
        reason = f"{100 * target:g} % was not reached in {count} {best:.2f} %"
    put(section, "train_s", None, reason)
    return section


def device_row(spec, result, device):
    own = device["replica"] == result["rank"] or spec["strategy"] != "dp"
    row = {"rank": device["replica"], "process_rank": result["rank"], "role": "worker",
           "host": result["host"], "device": device["device"], "cores": device["cores"]}
    steps = result["steps"] if own else []
    put(row, "step_time_median_s", figures.median(steps) if steps else None,
        NOT_TIMED if own else "DataParallel is timed on device 0 alone")
    memory = {}
    put(memory, "peak_bytes", device["peak_bytes"], device.get("peak_bytes_reason"))
    memory.update(by_category_bytes={}, process_peak_rss_bytes=result["peak_rss_bytes"])
    row["memory"] = memory
    if own and steps:
        row["phases"] = phases(spec, result["phases"], NOT_TIMED)
    row["buckets"] = []
    return row


def times(spec, outcome, results, otherwise):
    """Returns the times of the slowest rank."""
    def longest(value):
        return max(map(value, results)) if results else None
    section = {}
    put(section, "startup_s", longest(lambda r: r["ready"] - outcome.started) if outcome else None,
        otherwise)
    put(section, "verify_s", None, "nothing was verified")
    put(section, "warmup_s", longest(lambda r: r["warmup_s"]), otherwise)
    put(section, "train_s", longest(lambda r: sum(e["end"] - e["begin"] for e in r["epochs"])),
        otherwise)
    put(section, "evaluate_s", longest(lambda r: r["evaluate_s"]), otherwise)
    put(section, "total_s", outcome.total_s if outcome else None, otherwise)
    return section


def strategy_options(spec, network):
    """Returns the options that tell the runs of this peer apart, as given."""
    options = {"compile": spec["compile"], "residency": spec["residency"]}
    if spec["device"] == "cuda":
        options["pace"] = spec["pace"]
    if spec["strategy"] == "ddp":
        cap = spec["bucket_cap_mb"]
        options.update(overlap=True, bucket_cap_mb=int(cap) if cap == int(cap) else cap,
                       first_bucket_mb=1)
        if network["has_state"]:
            options["broadcast_buffers"] = spec["broadcast_buffers"]
    return options


def device_model(spec, found):
    if spec["device"] == "cpu":
        return environment.cpu_model()
    return found["devices"][0]["name"]


def optimizer(spec):
    """As ddpbench records it: nesterov, a schedule and a warm-up only where they are on."""
    names = ["lr", "weight_decay"]
    names += ["momentum"] if spec["optimizer"] == "sgd" else ["beta1", "beta2", "epsilon"]
    if spec["optimizer"] == "sgd" and spec["nesterov"]:
        names.append("nesterov")
    names += {"constant": [], "step": ["lr_schedule", "lr_step_size", "lr_gamma"],
              "cosine": ["lr_schedule", "lr_cosine_steps", "lr_min"]}[spec["lr_schedule"]]
    if spec["lr_warmup_steps"] > 0:
        names += ["lr_warmup_steps", "lr_warmup_factor"]
    return {"name": spec["optimizer"], **{name: spec[name] for name in names}}


def setting(run, cell, options, data, found):
    """Sets what the user asked for."""
    spec = cell["spec"]
    run.update(strategy=spec["strategy"], world_size=spec["world_size"], servers=0,
               device=spec["device"], threads_per_device=spec["threads"],
               precision=spec["precision"], model=cell["network"]["name"],
               model_hash=cell["network"]["hash"])
    put(run, "device_model", device_model(spec, found), "not reported by this system")
    put(run, "backend", spec["backend"], cell["skipped"] or "no backend")
    run["optimizer"] = optimizer(spec)
    run.update(per_device_batch_size=cell["per_device_batch"],
               global_batch_size=spec["global_batch"], accumulation_steps=1,
               scaling_mode="weak" if options["global_batch_size"] is None else "strong",
               oversubscribed=cell["oversubscribed"], injected=None,
               strategy_options=strategy_options(spec, cell["network"]))
    run["dataset"] = {name: data[name] for name in
                      ("name", "source", "train_samples", "test_samples", "note") if name in data}
    run["dataset"]["augment"] = spec["augment"]


def status_of(cell, outcome):
    if cell["skipped"]:
        return "skipped"
    if outcome.interrupted:
        return "interrupted"
    return "failed" if outcome.error else "ok"


def run_section(cell, outcome, options, data, found):
    """`outcome`: from launch.run; None for a skipped run. report.py adds scaling."""
    run = {"status": status_of(cell, outcome)}
    if run["status"] == "skipped":
        run["reason"] = cell["skipped"]
    if run["status"] == "failed":
        run["error"] = outcome.error
    otherwise = missing_reason(run)
    spec = cell["spec"]
    # Ranks of an interrupted run may have published different epochs: those that all have count.
    results = outcome.results if outcome else []
    results = results if len(results) == spec["processes"] else []
    setting(run, cell, options, data, found)
    put(run, "parameters", results[0]["parameters"] if results else None, otherwise)
    run["time"] = times(spec, outcome, results, otherwise)
    run["epochs"] = epoch_rows(results)
    if spec["until_accuracy"] is not None:
        run["until_accuracy"] = time_to_accuracy(spec["until_accuracy"], run, otherwise)
    samples = slowest(results, "steps")
    run["step"] = step_section(spec, samples, otherwise)
    run["phases"] = phases(spec, slowest_phases(results), otherwise)
    run["devices"] = [device_row(spec, result, device)
                      for result in results for device in result["devices"]]
    run["verification"] = {"status": "not_applicable", "reason": UNVERIFIED, "steps": 0,
                           "max_relative_error": None, "max_relative_error_reason": UNVERIFIED,
                           "worst_tensor": None, "tolerance": None, "tolerance_reason": UNVERIFIED,
                           "replicas_bit_equal": None}
    rate = spec["global_batch"] / figures.median(samples) if samples else None
    throughput = {}
    put(throughput, "samples_per_s", rate, otherwise)
    put(throughput, "samples_per_s_per_device", rate and rate / spec["world_size"], otherwise)
    run["throughput"] = throughput
    return run
