# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the document from its text, template.md, with tables and charts made of the reports."""

import pathlib
import re
import subprocess

import figures
import tables

HERE = pathlib.Path(__file__).resolve().parent


# Each gets all runs, and the networks that the text names.
TABLES = {
    "matrix": lambda runs, networks: tables.matrix(runs, *networks),
    "overlaps": lambda runs, networks: tables.overlaps(runs, *networks),
    "slow-links": lambda runs, networks: tables.slow_links(runs, *networks),
    "congestion": lambda runs, networks: tables.congestion(runs, networks),
    "targets": lambda runs, networks: tables.targets(runs, networks),
}


def table_of(word, runs, networks):
    """The table that {{word}} stands for: a name, and the keys of networks."""
    by_key = {network.key: network for network in networks}
    name, *keys = word.split()
    if any(key not in by_key for key in keys):
        return "(not measured)"
    return TABLES[name](runs, [by_key[key] for key in keys])


def fill(text, runs, networks):
    return re.sub(r"\{\{([^}]+)\}\}",
                  lambda match: table_of(match.group(1), runs, networks), text)


# A picture: its reports below the folder, and what `ddpbench chart` is told.
CHARTS = {
    "scaling-1gbit": (["1gbit/all-reduce-gloo", "1gbit/servers"],
                      ["--kind=scaling", "--title=1 Gbit/s, 25 MiB of gradients, no overlap"]),
    "scaling-slow-link": (["slow-link/all-reduce-gloo", "slow-link/servers"],
                          ["--kind=scaling",
                           "--title=One link of 100 Mbit/s among those of 1 Gbit/s, 2.7 MiB"]),
    "breakdown-1gbit": (["1gbit/buckets"],
                        ["--kind=breakdown", "--gpus=4",
                         "--title=1 Gbit/s, 4 hosts: overlap and size of buckets"]),
    "buckets-1gbit": (["1gbit/buckets"],
                      ["--kind=buckets", "--gpus=2", "--where=bucket_cap_mb=5,overlap=on",
                       "--title=1 Gbit/s, 2 hosts: the buckets of a step with overlap"]),
}


def draw(program, folder, pictures, log=print):
    pictures.mkdir(parents=True, exist_ok=True)
    for name, (reports, arguments) in CHARTS.items():
        paths = [folder / f"{report}.json" for report in reports]
        if not all(path.exists() for path in paths):
            continue
        picture = pictures / f"{name}.svg"
        done = subprocess.run([program, "chart", *map(str, paths), *arguments, "--force",
                               f"--output={picture}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            log(f"no chart {name}: {done.stderr.strip()}")


def write(path, program, folder, networks, log=print):
    path, folder = pathlib.Path(path).resolve(), pathlib.Path(folder).resolve()
    runs = figures.read_reports(folder, networks)
    draw(program, folder, path.parent / path.stem, log)
    text = (HERE / "template.md").read_text(encoding="utf-8")
    path.write_text(fill(text, runs, networks), encoding="utf-8")
