#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Measures strategies over networks of hosts that it makes itself, and writes the document about it.

    scripts/network_study.py FOLDER [--program=FILE] [--only=NETWORK,...] [--quick] [--patience=S]
        [--document=FILE]

Reports go to FOLDER, and those that are there already are not made again: so a study that was
interrupted goes on, and without a missing report this only writes the document. The hosts are
namespaces of this machine (tests/netlab/lab.py), which needs root. The whole takes about a quarter of
an hour on a machine that does nothing else; each command waits up to --patience seconds (30) for that,
and is repeated up to twice when it was disturbed. --quick measures a small part in half a minute,
without patience, and writes no document unless one is named.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "network_study"))
sys.dont_write_bytecode = True
import document  # noqa: E402
import measure  # noqa: E402
import plan  # noqa: E402

STEPS, QUICK_STEPS = 6, 3


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "cpu-release" / "bin" / "ddpbench")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--document", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse()
    networks = plan.quick() if options.quick else plan.networks()
    wanted = set(filter(None, options.only.split(",")))
    unknown = wanted - {network.key for network in networks}
    if unknown:
        sys.exit(f"network_study.py: no such networks: {', '.join(sorted(unknown))}")
    study = measure.Study(options.folder, options.program,
                          QUICK_STEPS if options.quick else STEPS,
                          0 if options.quick else options.patience)
    for network in networks:
        if not wanted or network.key in wanted:
            study.make(network)
    measured = [network for network in networks if not study.missing(network)]
    path = options.document
    if path is None and not options.quick and len(measured) == len(networks):
        path = ROOT / "docs" / "network-study.md"
    if path is not None:
        document.write(path, str(study.program), study.folder, measured)
        print(f"document: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
