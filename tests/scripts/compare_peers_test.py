#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests how scripts/compare_peers.py finds and runs PyTorch, with stand-ins for it."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

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

    def test_a_tree_is_the_only_place_that_is_asked(self):
        torch = self.peers.Torch(pathlib.Path("/nowhere/trixie"))
        self.assertEqual(len(torch.candidates), 1)
        self.assertIn("/nowhere/trixie", torch.candidates[0])
        self.assertIn("chroot", " ".join(torch.candidates[0]))
        self.assertIsNone(torch.command())


if __name__ == "__main__":
    unittest.main()
