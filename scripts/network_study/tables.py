# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the document, in Markdown."""

import figures

MISSING = "-"
# The target of all-reduces is one of large buckets, 25 MiB but for some KiB.
TARGET_BYTES = 25e6
# What all-reduces alone ran over, by the names of their reports.
BACKENDS = ["gloo", "mpi"]
# A row of the matrix: its place, and what it is called.
OWN_SERVERS = (2, 0), "`ps`, n servers of their own"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ms(seconds):
    if seconds is None:
        return MISSING
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def percent(share):
    return MISSING if share is None else f"{100 * share:.1f} %"


def off_by(measured, expected):
    """How far a measured time is from the expected one: "+3.2 %"."""
    if measured is None or not expected:
        return MISSING
    return f"{100 * (measured / expected - 1):+.1f} %"


def select(runs, **wanted):
    return [run for run in runs
            if all(getattr(run, key) == value for key, value in wanted.items())]


def rates(network):
    """(of a link, of the slow one or None), as TCP can use them."""
    return (figures.tcp_rate(network.rate, network.mtu),
            figures.tcp_rate(network.slow_rate, network.mtu) if network.slow_rate else None)


def alone(runs, network):
    """The runs of all-reduces alone, in the order in which tables have them: by what they ran over,
    the hosts."""
    names = [f"all-reduce-{name}" for name in BACKENDS]
    return sorted((run for run in select(runs, network=network.key) if run.command in names),
                  key=lambda run: (names.index(run.command), run.workers))


def kind_of(run):
    """Where the rows of the matrix for such runs stand, and how they are called."""
    if run.strategy == "ddp":
        return (-1, BACKENDS.index(run.backend)), f"`ddp`, {run.backend}"
    if run.beside:
        return (3, 0), "`ps`, a server beside each worker"
    if run.servers == run.workers and run.command != "servers":
        return OWN_SERVERS
    return (1, run.servers), f"`ps`, {run.servers} server{'s' if run.servers > 1 else ''}"


def matrix_runs(runs, network):
    """{(row, name): {workers: run}} of the runs without overlap. Two servers of their own for two
    workers are n servers, too."""
    rows = {}
    for run in select(runs, network=network.key, overlap=False):
        if run.command == "buckets":
            continue
        rows.setdefault(kind_of(run), {})[run.workers] = run
        if run.command == "servers" and run.servers == run.workers:
            rows.setdefault(OWN_SERVERS, {})[run.workers] = run
    return dict(sorted(rows.items()))


def matrix(runs, network):
    """What of each strategy's step without overlap is not compute, and the bound's share of it."""
    rate, slow = rates(network)
    counts = sorted({run.workers for run in select(runs, network=network.key)})
    rows = []
    for (_, name), row in matrix_runs(runs, network).items():
        cells = [name]
        for count in counts:
            run = row.get(count)
            moved = figures.beside_compute(run) if run else None
            cells.append(f"{ms(moved)} ({percent(figures.bound(run, rate, slow) / moved)})"
                         if run else MISSING)
        rows.append(cells)
    return table(["", *(f"{count} workers" for count in counts)], rows)


def overlaps(runs, network):
    """What overlap leaves exposed, beside what compute and link predict."""
    rate, slow = rates(network)
    rows = []
    for apart, together in figures.pairs(runs, network.key):
        predicted = figures.predict_exposed(apart, slow or rate)
        rows.append([str(apart.workers), f"{apart.cap_mb:g}", str(len(apart.buckets[0])),
                     ms(apart.exposed_s), ms(predicted), ms(together.exposed_s),
                     off_by(together.exposed_s, predicted)])
    return table(["hosts", "cap, MiB", "buckets", "exposed, ms: off", "predicted", "on",
                  "off by"], rows)


def in_cast_bound(run, network):
    return 2 * run.workers * run.gradient_bytes / figures.raw_rate(network.rate)


def slow_links(runs, all_slow, one_slow):
    """What one slow link costs, beside all links slow."""
    slow_rows, rows = matrix_runs(runs, one_slow), []
    for key, row in matrix_runs(runs, all_slow).items():
        for count, run in sorted(row.items()):
            other = slow_rows.get(key, {}).get(count)
            if other is None or run.backend == "mpi" or run.servers > 1 and not run.beside:
                continue
            moved, all_moved = figures.beside_compute(other), figures.beside_compute(run)
            rows.append([key[1], str(count), ms(moved), ms(all_moved), percent(moved / all_moved)])
    return table(["", "workers", "one slow, ms", "all slow, ms", "ratio"], rows)


def verdict(shares, holds):
    """["in 2 of 3 rows", "96.1 % to 118.2 %"] of the shares that hold."""
    shares = [share for share in shares if share is not None]
    if not shares:
        return [MISSING, MISSING]
    met = sum(1 for share in shares if holds(share))
    least, most = percent(min(shares)), percent(max(shares))
    return [f"in {met} of {len(shares)} rows", least if least == most else f"{least} to {most}"]


def targets(runs, networks):
    """What was to be reached: rows for each network on which it was measured."""
    rows = []
    for network in networks:
        for run in alone(runs, network):
            if run.workers != 4 or run.gradient_bytes < TARGET_BYTES:
                continue
            shares = [figures.all_reduce_bound(run.gradient_bytes, 4, rate) / run.comm_s
                      for rate in (figures.raw_rate(network.rate), rates(network)[0])]
            rows.append([f"all-reduce, {network.title}, {run.backend}",
                         "{} ({})".format(*("yes" if share >= 0.95 else "no" for share in shares)),
                         f"{percent(shares[0])} ({percent(shares[1])})"])
    for network in networks:
        exposed = [together.exposed_s / figures.predict_exposed(apart, rates(network)[0])
                   for apart, together in figures.pairs(runs, network.key)]
        if exposed:
            rows.append([f"exposed / predicted, {network.title}",
                         *verdict(exposed, within_tenth)])
    for network in networks:
        shares = [figures.beside_compute(run) / in_cast_bound(run, network) for run in
                  select(runs, network=network.key, command="servers", servers=1)]
        if shares:
            rows.append([f"in-cast / 2 n S/B, {network.title}",
                         *verdict(shares, within_tenth)])
    return table(["target", "reached", "measured"], rows)


def within_tenth(share):
    return abs(share - 1) <= 0.1


def congestion_column(runs, network):
    """{row: cell} of one algorithm of TCP, each with its share of what TCP carries."""
    rate, cells = rates(network)[0], {}

    def add(row, measured, limit):
        if measured:
            cells[row] = f"{ms(measured)} ({percent(limit / measured)})"

    pieces = sorted(select(runs, network=network.key, command="pieces"),
                    key=lambda run: run.workers)
    for run in (*alone(runs, network), *pieces):
        count = len(run.buckets[0])
        add(f"all-reduce of {count} bucket{'s' * (count > 1)}, {run.workers} hosts",
            run.comm_s, figures.bound(run, rate))
    for run in select(runs, network=network.key, command="servers"):
        add(f"push and pull, {run.workers} workers and a server", figures.beside_compute(run),
            figures.bound(run, rate))
        cells["in the report"] = run.congestion_control or MISSING
    return cells


def congestion(runs, networks):
    """TCP's algorithms: 25 MiB at once, in buckets, and to one server."""
    columns = [congestion_column(runs, network) for network in networks]
    rows = [[row, *(column.get(row, MISSING) for column in columns)] for row in columns[0]]
    return table(["ms (of what TCP carries)",
                  *(network.congestion_control or "" for network in networks)], rows)
