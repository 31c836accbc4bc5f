# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The report as a whole: scaling, repetitions, and writing it to disk."""
import datetime
import json
import os

from . import figures, options as option_table
from .environment import put

FEWEST_FOR_INTERVAL = 6


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def unusable(run):
    """Says why a run is of no use for scaling; None when it is of use."""
    if run["status"] != "ok":
        return {"failed": "the run failed", "skipped": "the run was skipped",
                "interrupted": "the run was interrupted"}[run["status"]]
    if run["oversubscribed"]:
        return "oversubscribed: more compute threads than cores"
    return None


def fill_scaling(runs):
    """Compares with the median of this report's `single` runs of the same batch."""
    strong = any(run["scaling_mode"] == "strong" for run in runs)
    key = "global_batch_size" if strong else "per_device_batch_size"
    for run in runs:
        run["scaling"] = None
        reason = unusable(run)
        singles = [other["throughput"]["samples_per_s"] for other in runs
                   if other["strategy"] == "single" and unusable(other) is None
                   and other[key] == run[key]]
        if reason is None and not singles:
            reason = "no usable single run in this report"
        if reason is None:
            speedup = run["throughput"]["samples_per_s"] / figures.median(singles)
            run["scaling"] = {"baseline": "single", "speedup": speedup,
                              "efficiency": speedup / run["world_size"]}
        else:
            run["scaling_reason"] = reason


def cell_summary(runs, indices):
    values = [runs[index]["step"]["time_s"]["median"] for index in indices
              if runs[index]["status"] == "ok"]
    interval = figures.median_interval(values) if values else None
    section = {"runs": indices}
    put(section, "step_median_s", figures.median(values) if values else None,
        "no repetition was timed")
    reason = (f"a 95 % interval of the median needs {FEWEST_FOR_INTERVAL} timed repetitions, there "
              f"{'is' if len(values) == 1 else 'are'} {len(values)}")
    low, high = interval or (None, None)
    put(section, "ci_low_s", low, reason)
    put(section, "ci_high_s", high, reason)
    put(section, "ci_width_ratio",
        None if interval is None else (high - low) / section["step_median_s"], reason)
    section.update(wanted_width_ratio=None, noisy=False)
    return section


def cell_summaries(runs):
    """`runs` have the repetitions of a setting side by side."""
    groups = {}
    for index, run in enumerate(runs):
        groups.setdefault((run["strategy"], run["world_size"]), []).append(index)
    return [cell_summary(runs, indices) for indices in groups.values()]


def config_section(options):
    config = {}
    for name, value in options.items():
        if value is None:
            continue
        *group, key = name.split("/")
        if not option_table.heeded(options, name):
            continue
        if name == "optimizer":
            group, key = ["optimizer"], "name"
        elif name in option_table.OPTIMIZER_OPTIONS:
            group = ["optimizer"]
        (config.setdefault(group[0], {}) if group else config)[key] = value
    return config


def assemble(head, options, runs, interrupted):
    """`head`: generator, environment, argv and started_at."""
    runs = sorted(runs, key=lambda run: (run.pop("cell"), run["repetition"]))
    fill_scaling(runs)
    failed = [run for run in runs if run["status"] == "failed"]
    first = min(failed, key=lambda run: run["sequence"])["error"] if failed else None
    status = "interrupted" if interrupted else "failed" if failed else "ok"
    report = {"schema_version": 1, "generator": head["generator"], "status": status,
              "error": first, "started_at": head["started_at"], "finished_at": now(),
              "argv": head["argv"], "environment": head["environment"],
              "config": config_section(options), "runs": runs}
    if options["repetitions"] > 1 and runs:
        report["cells"] = cell_summaries(runs)
    return report


def write(report, path, force):
    """Writes all or nothing; without `force` over no file, even if it appeared meanwhile."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            json.dump(report, file, indent=2, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)  # fails where `path` exists; a rename would replace it
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
