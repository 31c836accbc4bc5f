# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the synthetic images that the PyTorch peer draws with ddpbench's, byte for byte. Needs no
PyTorch.

    synthetic_test.py SYNTHETIC_BYTES [unittest arguments]

Exits with 77, which ctest shows as skipped, where no interpreter has NumPy."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import peer_support as support  # noqa: E402

sys.path.insert(0, str(support.PEERS))
from pytorch_peer import synthetic  # noqa: E402

PROGRAM = None


class SyntheticImages(unittest.TestCase):
    def ours(self, shape, classes, seed, first, count, *maps):
        words = [*shape, classes, seed, first, count, *(word for word in maps if word is not None)]
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=True).stdout

    def theirs(self, shape, classes, seed, first, count, *maps):
        images, labels = synthetic.draw(seed, shape, classes, first, count,
                                        synthetic.Maps(*maps) if maps else None)
        return b"".join(label.astype("<u2").tobytes() + image.tobytes()
                        for image, label in zip(images, labels))

    def test_bytes_and_labels_are_ddpbenchs(self):
        for request in (((3, 32, 32), 10, 1, 0, 300), ((1, 28, 28), 7, 2**40 + 5, 17, 40),
                        ((3, 224, 224), 1000, 3, synthetic.TEST_SAMPLES_FROM, 9),
                        ((2, 5, 13), 65535, 1, 0, 50)):
            with self.subTest(request):
                self.assertEqual(self.theirs(*request), self.ours(*request))

    def test_maps_of_labels_are_ddpbenchs(self):
        for request in (((3, 32, 32), 10, 1, 0, 300, 32, 32, None), ((1, 28, 20), 7, 5, 17, 40, 7, 5, 255),
                        ((2, 5, 13), 3, 1, 0, 100, 1, 9, 2),
                        ((3, 96, 96), 21, 3, synthetic.TEST_SAMPLES_FROM, 20, 24, 24, 255)):
            with self.subTest(request):
                self.assertEqual(self.theirs(*request), self.ours(*request))

    def test_labels_that_are_drawn_again_are_ddpbenchs(self):
        # Of 3 x 10^9 classes a third of the draws is rejected. ddpbench has no so many labels, so the
        # numbers are those of base/random.h, as the peer's sampler has them.
        classes = 3 * 10**9
        state = synthetic.states(9, synthetic.numpy.arange(40, dtype=synthetic.numpy.uint64))
        taken = synthetic.numpy.zeros(40, synthetic.numpy.uint64)
        labels = synthetic.draw_labels(state, classes, taken)
        generators = [synthetic.sampler.SplitMix64(9, index) for index in range(40)]
        self.assertEqual(labels.tolist(), [generator.below(classes) for generator in generators])
        self.assertGreater(max(taken), 1)

    def test_numbers_of_samples_are_ddpbenchs(self):
        # As tests/datasets/synthetic_images_test.cpp has them.
        self.assertEqual(synthetic.counts((1, 28, 28)), (60000, 10000))
        self.assertEqual(synthetic.counts((3, 224, 224)), (1783, 297))
        self.assertEqual(synthetic.counts((3, 8000, 8000)), (256, 42))
        self.assertEqual(synthetic.counts((1, 64, 64), (64, 64)), (32768, 5461))


if __name__ == "__main__":
    if synthetic.numpy is None:
        other = "/usr/bin/python3"
        if os.path.realpath(other) == os.path.realpath(sys.executable) or subprocess.run(
                [other, "-c", "import numpy"], capture_output=True, check=False).returncode != 0:
            print("skipped: no interpreter here has NumPy (Debian: python3-numpy)")
            sys.exit(77)
        os.execv(other, [other, "-B", *sys.argv])
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
