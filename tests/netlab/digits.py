# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""MNIST's files with few images, which are read at once: to draw all of them takes each process
longer than the few steps of a test."""

import os
import struct


def write_digits(folder, train=2400, test=32):
    os.makedirs(folder)
    for name, count in (("train", train), ("t10k", test)):
        with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">4I", 2051, count, 28, 28) + os.urandom(count * 28 * 28))
        with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count)))
