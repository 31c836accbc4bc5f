# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What the study measures: networks of hosts, and the commands that are run over each."""

import dataclasses
from typing import List, Optional, Tuple

# The description of layers that a command trains (NAME.json beside this file).
WIDE, NARROW = "wide", "narrow"
# One bucket for all gradients, sent after backward: the all-reduce alone.
ONE_BUCKET = ("--strategy=ddp", "--overlap=off", "--first-bucket-mb=26", "--bucket-cap-mb=26")
COUNTS = (2, 4, 8)


@dataclasses.dataclass(frozen=True)
class Command:
    """One command line of ddpbench, which leaves the report NAME.json. `servers`: how many hosts it
    has beside those of its workers."""

    name: str
    workers: Tuple[int, ...]
    arguments: Tuple[str, ...]
    backend: str = "gloo"
    servers: int = 0
    model: str = WIDE

    def hosts(self):
        return list(range(max(self.workers) + self.servers))


@dataclasses.dataclass(frozen=True)
class Network:
    """Hosts with links of one rate, or `slow_rate` where a host is in `slow`."""

    key: str
    title: str
    rate: str
    commands: List[Command]
    slow: Tuple[int, ...] = ()
    slow_rate: Optional[str] = None
    congestion_control: Optional[str] = None
    mtu: int = 1500
    queue: str = "20ms"
    mpirun: Tuple[str, ...] = ()  # further words

    def hosts(self):
        return max(len(command.hosts()) for command in self.commands)


def all_reduces(model, counts, backends=("gloo", "mpi")):
    # On the same hosts as with two servers, so that one chart may have both.
    return [Command(f"all-reduce-{backend}", counts, ONE_BUCKET, backend, model=model,
                    servers=2 if backend == "gloo" else 0)
            for backend in backends]


def buckets(model, counts, first, caps):
    return Command("buckets", counts,
                   ("--strategy=ddp", "--overlap=on,off", f"--first-bucket-mb={first}",
                    "--bucket-cap-mb=" + ",".join(caps)), model=model)


def servers(model, counts, numbers=("1", "2")):
    """`ps` with servers on hosts of their own: 1 and 2, and as many as workers; and as many beside
    the workers, on their hosts."""
    one = ("--strategy=ps", "--overlap=off")
    made = [Command("servers", counts, (*one, "--servers=" + ",".join(numbers)),
                    servers=int(numbers[-1]), model=model)]
    for count in counts:
        many = (*one, f"--servers={count}")
        if str(count) not in numbers:
            made.append(Command(f"servers-as-workers-{count}", (count,), many, servers=count,
                                model=model))
        made.append(Command(f"servers-beside-{count}", (count,), many, model=model))
    return made


ONE_SERVER = Command("servers", (4,), ("--strategy=ps", "--overlap=off", "--servers=1"), servers=1)


def congestion(name):
    """25 MiB at once, in small pieces, and to one server, with one algorithm of TCP."""
    return Network(f"tcp-{name}", f"1 Gbit/s, {name}", "1gbit",
                   [*all_reduces(WIDE, (4, 8), ("gloo",)),
                    Command("pieces", (4, 8), ("--strategy=ddp", "--overlap=off",
                                               "--first-bucket-mb=1", "--bucket-cap-mb=1")),
                    ONE_SERVER], congestion_control=name)


def networks():
    narrow = [buckets(NARROW, COUNTS, "0.1", ("0.5",)), *all_reduces(NARROW, COUNTS),
              *servers(NARROW, COUNTS)]
    return [
        Network("1gbit", "1 Gbit/s", "1gbit",
                [*all_reduces(WIDE, COUNTS), buckets(WIDE, COUNTS, "1", ("1", "5", "26")),
                 *servers(WIDE, COUNTS)]),
        Network("100mbit", "100 Mbit/s", "100mbit", narrow),
        # The slow one is a worker's, not that of rank 0.
        Network("slow-link", "1 Gbit/s, one link 100 Mbit/s", "1gbit", narrow, slow=(1,),
                slow_rate="100mbit"),
        Network("jumbo", "1 Gbit/s, frames of 9000 bytes", "1gbit",
                [*all_reduces(WIDE, (4,)), ONE_SERVER], mtu=9000),
        *(congestion(name) for name in ("bbr", "cubic", "reno")),
    ]


def quick():
    """A small part, to try the script."""
    return [Network("1gbit", "1 Gbit/s", "1gbit",
                    [*all_reduces(NARROW, (2,)), buckets(NARROW, (2,), "0.1", ("0.5",)),
                     *servers(NARROW, (2,), ("1",))])]
