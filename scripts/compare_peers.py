#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares ddpbench with PyTorch and Open MPI on this machine, in turn, and prints ratios.

Every comparison alternates A B A B ..., because machines drift: a ratio of two medians from one
interleaved run means something, an absolute time from another day does not. What is not installed
(PyTorch, mpicc) is named and left out. PyTorch runs at the better of channels_last and contiguous.

  scripts/compare_peers.py --build build/cpu-release [--rounds 3] [--only step,ddp,...]
                           [--peer-tree /srv/trixie]

--peer-tree takes PyTorch from a Debian tree (debootstrap) that has a newer one than this machine, and
needs root; docs/performance.md says how to make one.
"""
import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "compare_peers"))
sys.dont_write_bytecode = True
from programs import FAILED, Ours, PeerError, Torch  # noqa: E402
import rows  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "cpu-release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=rows.DEFAULT_ROWS,
                        help=f"rows, by default {rows.DEFAULT_ROWS}; further {rows.ENGINE_ROWS}; "
                             f"{rows.OWN_ROWS}, resnet18-{{{','.join(rows.STRATEGIES)}}}, "
                             f"{','.join(rows.NETWORKS)} and any of the last with -memory, which take minutes")
    parser.add_argument("--peer-tree", type=pathlib.Path, metavar="DIR",
                        help="a Debian tree to take PyTorch from")
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        if name not in rows.ALL_ROWS:
            parser.error(f"--only: there is no row {name!r}; there are {', '.join(rows.ALL_ROWS)}")
    return arguments


def main():
    arguments = parse()
    wanted = arguments.only.split(",")
    rounds = arguments.rounds
    torch = Torch(arguments.peer_tree)
    try:
        has_torch = torch.command() is not None
    except PeerError as error:
        print(error, file=sys.stderr)
        return FAILED
    print("| what | peer | ours | ours / peer | rounds |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(arguments.build, folder)
        if has_torch:
            rows.compare_with_torch(ours, torch, wanted, rounds)
        else:
            print("PyTorch is not installed: step, ddp, startup and memory are left out",
                  file=sys.stderr)
        rows.compare_overheads(ours, wanted, rounds)
        rows.compare_rest(ours, wanted, rounds)
        programs = rows.build_mpi_programs(folder)
        if programs is None:
            print("mpicc is not installed: all-reduce is left out", file=sys.stderr)
        else:
            rows.compare_all_reduces(ours, f"{programs}/mpi_all_reduce", wanted, rounds)
        rows.compare_engines(ours, programs, wanted, rounds)
        rows.compare_host_starts(ours, wanted, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
