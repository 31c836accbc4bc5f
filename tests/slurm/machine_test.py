#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What scripts/slurm_machine.sh promises: nodes that look like hosts, and nothing left.

    tests/slurm/machine_test.py
"""

import os
import signal
import subprocess
import sys
import time
import unittest

from machine import SCRIPT, skip_without


def descendants(pid):
    """All processes below one, as this PID namespace numbers them."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                found += [int(child), *descendants(int(child))]
    except FileNotFoundError:
        pass  # it has ended
    return found


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return not stat.read().rsplit(")", 1)[1].startswith(" Z")
    except OSError:
        return False


class Machine(unittest.TestCase):
    def test_has_two_nodes_and_passes_input_output_and_exit_code_on(self):
        line = 'read word; srun --nodes=2 --label hostname | sort; echo "$word"; exit 7'
        done = subprocess.run([SCRIPT, "--", "sh", "-c", line], input="a word\n", text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(done.stdout.splitlines(), ["0: n0", "1: n1", "a word"])

    def test_refuses_what_it_does_not_know(self):
        for arguments in (["--nodes=none", "--", "true"], ["true"], [], ["--"]):
            done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=10,
                                  check=False)
            self.assertEqual(done.returncode, 2, arguments)

    def test_leaves_nothing_when_it_is_ended_or_killed(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            made = subprocess.Popen([SCRIPT, "--", "srun", "sh", "-c", "echo up; sleep 600"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.assertEqual(made.stdout.readline(), "up\n")
            pids = descendants(made.pid)
            self.assertGreater(len(pids), 8)
            made.send_signal(number)
            code = made.wait(20)
            made.stdout.close()
            self.assertEqual(code, -9 if number == signal.SIGKILL else 128 + number)
            deadline = time.monotonic() + 10
            while any(runs(pid) for pid in pids):
                self.assertLess(time.monotonic(), deadline, "processes outlive the machine")
                time.sleep(0.05)
            with open("/proc/mounts", encoding="utf-8") as mounts:
                self.assertNotIn("/var/lib/slurm", mounts.read())
            self.assertFalse(os.path.exists("/var/lib/slurm/slurm.conf"))


if __name__ == "__main__":
    skip_without()
    unittest.main(argv=sys.argv[:1], verbosity=2)
