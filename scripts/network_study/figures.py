# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What the reports say, beside what link and compute allow.

S bytes of gradients, n workers, s servers, B bytes/s of a link in each direction. Links are full
duplex, and the switch between them is not bounded.
"""

import dataclasses
import json
import pathlib
from typing import List, Optional, Tuple

BITS = {"1gbit": 1e9, "100mbit": 1e8}


def raw_rate(rate):
    return BITS[rate] / 8


def tcp_rate(rate, mtu=1500):
    """What TCP carries of a link: frames have 40 bytes of headers and 12 of time stamps, and 14 of
    Ethernet's, which tc counts, too."""
    return raw_rate(rate) * (mtu - 52) / (mtu + 14)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a report, in seconds and bytes."""

    network: str
    command: str
    strategy: str
    backend: str
    workers: int
    servers: int
    beside: bool  # servers on the workers' hosts
    overlap: bool
    cap_mb: Optional[float]
    gradient_bytes: int
    step_s: float
    compute_s: float
    comm_s: Optional[float]
    exposed_s: Optional[float]
    buckets: Tuple[Tuple[dict, ...], ...]  # [worker][bucket] as in the report
    congestion_control: Optional[str]


def read_run(network, command, report, run):
    options = run["strategy_options"]
    phases = run["phases"]
    workers = [device for device in run["devices"] if device["role"] == "worker"]
    return Run(network=network, command=command, strategy=run["strategy"], backend=run["backend"],
               workers=run["world_size"], servers=run["servers"],
               beside=command.startswith("servers-beside"), overlap=bool(options.get("overlap")),
               cap_mb=options.get("bucket_cap_mb"),
               gradient_bytes=4 * run["parameters"],
               step_s=run["step"]["time_s"]["median"],
               compute_s=sum(phases.get(key) or 0
                             for key in ("forward_s", "backward_s", "optimizer_s")),
               comm_s=phases["comm_s"], exposed_s=phases["comm_exposed_s"],
               buckets=tuple(tuple(device["buckets"]) for device in workers),
               congestion_control=report["environment"].get("tcp_congestion_control"))


def read_reports(folder, networks) -> List[Run]:
    runs = []
    for network in networks:
        for command in network.commands:
            path = pathlib.Path(folder) / network.key / f"{command.name}.json"
            report = json.loads(path.read_text(encoding="utf-8"))
            runs += [read_run(network.key, command.name, report, run) for run in report["runs"]
                     if run["status"] == "ok"]
    return runs


# ---- bounds ----


def all_reduce_bound(bytes_, workers, rate):
    """The slowest rank's link carries 2 (n-1)/n S in each direction."""
    return 2 * (workers - 1) / workers * bytes_ / rate


def push_bound(run, rate, slow_rate=None):
    """All gradients to the servers; the way back is as long. A server's link takes n S/s (less what
    stays on its host), a worker's S."""
    n, s, size = run.workers, run.servers, run.gradient_bytes
    remote = n - 1 if run.beside else n
    server = remote * size / s / rate
    worker = (size * (s - 1) / s if run.beside else size) / (slow_rate or rate)
    # A server beside the slow worker has its link.
    slow_server = remote * size / s / slow_rate if slow_rate and run.beside else 0
    return max(server, worker, slow_server)


def bound(run, rate, slow_rate=None):
    """The communication of a step when links do nothing but carry it."""
    if run.strategy == "ddp":
        return all_reduce_bound(run.gradient_bytes, run.workers, slow_rate or rate)
    return 2 * push_bound(run, rate, slow_rate)


# ---- measured ----


def beside_compute(run):
    """What a step takes beside compute: what moves, and waiting for it, and what servers work."""
    return run.step_s - run.compute_s


# ---- overlap ----


def predict_exposed(apart, rate):
    """How much communication backward cannot hide, from a run without overlap: its buckets are ready
    as they were there, and move one after the other at the link's rate."""
    count = len(apart.buckets[0])
    ready = [max(worker[i]["ready_s"] for worker in apart.buckets) for i in range(count)]
    backward_end, now, exposed = max(ready), 0.0, 0.0
    for i in range(count):
        begin = max(now, ready[i])
        now = begin + all_reduce_bound(apart.buckets[0][i]["bytes"], apart.workers, rate)
        exposed += max(0.0, now - max(begin, backward_end))
    return exposed


def pairs(runs, network):
    """(without overlap, with) of each setting of buckets."""
    found = {}
    for run in runs:
        if run.network == network and run.command == "buckets":
            found.setdefault((run.workers, run.cap_mb), {})[run.overlap] = run
    return [(pair[False], pair[True]) for _, pair in sorted(found.items())
            if len(pair) == 2]
