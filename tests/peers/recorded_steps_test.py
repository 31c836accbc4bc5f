# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the recorded steps of some networks (tests/nn/steps) with torchvision here.

    recorded_steps_test.py NETWORK...

Exits with 77, which ctest shows as skipped, where no interpreter has torchvision."""
import os
import sys

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

if __name__ == "__main__":
    found = support.python_with("torchvision")
    if found is None:
        print("skipped: no interpreter here has torchvision (Debian: python3-torchvision)")
        sys.exit(77)
    script = str(support.ROOT / "tests" / "nn" / "record_steps.py")
    os.execv(found, [found, "-B", script, "check", *sys.argv[1:]])
