#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests how scripts/compare_peers.py finds and runs PyTorch, with stand-ins for it, and what it reads
from reports and traces."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare_peers.py"

# Says a time that depends on the layout.
PEER = """import json, sys
contiguous = "--contiguous" in sys.argv
print(json.dumps({"median_s": %s if contiguous else 0.2}))
"""
ABSENT = "raise SystemExit(3)"


def load():
    spec = importlib.util.spec_from_file_location("compare_peers", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# In place of python3 in a tree: whether the mounts, the peer and the settings are there.
PYTHON_OF_TREE = """#!/bin/sh
test -r /proc/self/status && test -d /dev/shm && test -d /sys/devices || exit 90
test "$1" = /mnt/peer.py && test -s /mnt/peer.py || exit 91
test "$USE_LIBUV$OMP_NUM_THREADS" = 01 && test -z "$STRAY" || exit 92
median=0.2 started=0
for argument; do
  case $argument in
    --contiguous) median=0.1 ;;
    --started-at=*) started=${argument#--started-at=} ;;
  esac
done
echo "{\\"median_s\\": $median, \\"start_s\\": $started}"
"""


def make_tree(tree):
    """With env, a shell, the libraries that they need, and PYTHON_OF_TREE."""
    for folder in ("proc", "sys", "dev", "mnt"):
        (tree / folder).mkdir()
    programs = ["/usr/bin/env", "/bin/sh", "/usr/bin/test"]
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    for path in [*programs, *re.findall(r"(/\S+) \(0x", listed)]:
        (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / path[1:])
    python = tree / "usr/bin/python3"
    python.write_text(PYTHON_OF_TREE, encoding="utf-8")
    python.chmod(0o755)


def may_mount():
    return shutil.which("ldd") is not None and shutil.which("unshare") is not None and subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "true"],
        capture_output=True, check=False).returncode == 0


class TorchTest(unittest.TestCase):
    def setUp(self):
        self.peers = load()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def candidate(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return [sys.executable, str(self.folder / name)]

    def test_takes_the_better_of_both_memory_formats(self):
        for contiguous, best in ((0.1, 0.1), (0.3, 0.2)):
            torch = self.peers.Torch()
            torch.candidates = [self.candidate("peer.py", PEER % contiguous)]
            self.assertEqual(torch.best("median_s", "--batch-size=2"), best)

    def test_takes_the_first_interpreter_that_has_pytorch(self):
        torch = self.peers.Torch()
        absent = self.candidate("absent.py", ABSENT)
        present = self.candidate("present.py", PEER % 0.3)
        torch.candidates = [absent, present]
        self.assertEqual(torch.command(), present)
        self.assertEqual(torch.best("median_s"), 0.2)
        torch.candidates = [absent]
        self.assertIsNone(torch.command())

    def test_says_why_a_peer_that_is_there_does_not_run(self):
        torch = self.peers.Torch()
        broken = self.candidate("broken.py", "raise RuntimeError('no such symbol')")
        absent = self.candidate("absent.py", ABSENT)
        for torch.candidates in ([absent, broken], [broken, absent]):
            with self.assertRaisesRegex(self.peers.PeerError, "status 1(.|\\n)*no such symbol"):
                torch.command()
        torch.candidates = [broken, self.candidate("present.py", PEER % 0.3)]
        self.assertEqual(torch.command(), torch.candidates[0])

    def test_a_tree_is_the_only_place_that_is_asked(self):
        torch = self.peers.Torch(pathlib.Path("/nowhere/trixie"))
        self.assertEqual(len(torch.candidates), 1)
        self.assertIn("/nowhere/trixie", torch.candidates[0])
        self.assertIn("chroot", " ".join(torch.candidates[0]))
        with self.assertRaisesRegex(self.peers.PeerError, "/nowhere/trixie"):
            torch.command()

    def test_names_a_row_or_a_program_that_is_not_there(self):
        for arguments, code, words in ((["--only=step,stpe"], 2, "there is no row 'stpe'"),
                                       (["--only=overhead", f"--build={self.folder}"], 1,
                                        f"there is no {self.folder}/bin/ddpbench")):
            done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0 and may_mount(), "needs root, unshare and ldd")
    def test_runs_the_python_of_a_tree_with_mounts_that_end_with_it(self):
        make_tree(self.folder)
        torch = self.peers.Torch(self.folder)
        with unittest.mock.patch.dict(os.environ, STRAY="1"):
            self.assertIsNotNone(torch.command())
            self.assertEqual(torch.best("median_s"), 0.1)
        before = time.time()
        self.assertGreater(torch.best("start_s"), before)  # taken in the tree
        self.assertLess(torch.best("start_s"), time.time())
        self.assertEqual(list((self.folder / "mnt").iterdir()), [])
        self.assertEqual(list((self.folder / "proc").iterdir()), [])

    def test_fails_with_3_and_the_reason_when_the_tree_that_was_asked_for_does_not_run(self):
        done = subprocess.run([sys.executable, str(SCRIPT), f"--peer-tree={self.folder}", "--only=step"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"PyTorch does not run in the tree {self.folder}", done.stderr)
        self.assertRegex(done.stderr, "mount|unshare")
        self.assertEqual(done.stdout, "")


def traced(category, name, begin_us, end_us):
    return {"cat": category, "name": name, "ph": "X", "ts": begin_us, "dur": end_us - begin_us}


class StepPartsTest(unittest.TestCase):
    def setUp(self):
        load()
        self.parts = importlib.import_module("step_parts")

    def test_only_calls_of_convolutions_count_as_such(self):
        for call in ("conv1 forward", "layer1.0.conv2 backward", "layer2.0.downsample.0 forward",
                     "conv1+relu1 forward", "layer4.2.conv3 backward, micro-batch 3 of 4"):
            self.assertTrue(self.parts.is_convolution(call), call)
        for call in ("bn1 forward", "layer1.0.bn2+layer1.0.sum+layer1.0.relu2 backward", "conv1 reordered",
                     "layer2.0.downsample.1+layer2.0.sum forward", "conv1 reordered forward", "fc forward",
                     "layer1.0.conv1 gradients summed", "weights to bf16"):
            self.assertFalse(self.parts.is_convolution(call), call)

    def test_the_rest_is_all_of_the_step_that_no_convolution_takes(self):
        events = [{"name": "process_name", "ph": "M"}]
        for begin, scale in ((0, 1), (1000, 3), (10000, 2)):
            events += [traced("step", "step", begin, begin + 100 * scale),
                       traced("layer", "conv1 forward", begin + 10, begin + 10 + 50 * scale),
                       traced("layer", "fc forward", begin + 20 + 50 * scale, begin + 25 + 50 * scale),
                       traced("layer", "conv1 backward", begin + 30 + 50 * scale, begin + 30 + 60 * scale)]
        rest_s, convolutions_s = self.parts.rest_and_convolutions({"traceEvents": events})
        self.assertAlmostEqual(rest_s, 80e-6)
        self.assertAlmostEqual(convolutions_s, 120e-6)

    def test_a_trace_without_convolutions_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "no convolution"):
            self.parts.rest_and_convolutions({"traceEvents": [traced("step", "step", 0, 9)]})


class StrategiesTest(unittest.TestCase):
    def test_both_sides_take_the_same_steps_of_the_same_strategy(self):
        load()
        rows = importlib.import_module("rows")
        ours, torch = unittest.mock.Mock(), unittest.mock.Mock()
        ours.step.return_value = torch.best.return_value = 1.0
        with contextlib.redirect_stdout(io.StringIO()) as table:
            rows.compare_strategies(ours, torch, ["resnet18-hook-fp16", "resnet18-localsgd"], 1)
        for call, peer, option, steps in zip(ours.step.call_args_list, torch.best.call_args_list,
                                             ("--comm-hook=fp16", "--sync-every=4"), (4, 8)):
            self.assertIn(option, call.args)
            self.assertEqual(call.kwargs["steps"], steps)
            self.assertIn(f"--steps={steps}", peer.args)
        self.assertIn("--strategy=hook-fp16", torch.best.call_args_list[0].args)
        self.assertIn("(PeriodicModelAverager, 4 steps) | 1000.00 ms | 1000.00 ms | 1.000 |", table.getvalue())


class HostStartTest(unittest.TestCase):
    def test_what_follows_the_start_is_the_parts_that_the_run_has(self):
        load()
        time_s = {"startup_s": 1.5, "verify_s": None, "warmup_s": None, "train_s": 0.25,
                  "evaluate_s": 0.5, "total_s": 9.0}
        self.assertEqual(importlib.import_module("rows").train_and_evaluate_s(time_s), 0.75)


if __name__ == "__main__":
    unittest.main()
