# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The machine with a Slurm of its own, for tests."""

import pathlib
import subprocess
import sys

SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "slurm_machine.sh")
SKIPPED = 77


def skip_without():
    """Ends this process where there can be no such machine, and says why."""
    done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"skipped: {done.stdout.strip() or done.stderr.strip()}")
        sys.exit(SKIPPED)
