# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the PyTorch peer: a small data set, programs, weights, an interpreter."""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "bench" / "peers"
SCRIPT = PEERS / "pytorch_report.py"
SIDE = 28


def python_with(module):
    """The distribution's interpreter if it has the module, otherwise this one if it has."""
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True,
                          check=False).returncode == 0:
            return python
    return None


def clean_environment(**more):
    """The environment without variables that set options."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DDPBENCH_")}
    return {**kept, **more}


def image(digit, noise):
    """A bright square in noise; its place tells the digit."""
    pixels = bytearray(noise.randrange(60) for _ in range(SIDE * SIDE))
    top, left = 4 + digit // 5 * 12, 1 + digit % 5 * 5
    for row in range(top, top + 8):
        for column in range(left, left + 5):
            pixels[row * SIDE + column] = 150 + noise.randrange(100)
    return bytes(pixels)


def write_mnist(folder, train=500, test=103):
    """Writes the IDX files of a data set called mnist into `folder`/mnist."""
    noise = random.Random(20)
    place = pathlib.Path(folder) / "mnist"
    place.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        labels = bytes(noise.randrange(10) for _ in range(count))
        images = b"".join(image(label, noise) for label in labels)
        (place / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, SIDE, SIDE) + images)
        (place / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def write_cifar(folder, train, test):
    """Writes a subset of CIFAR-10 into `folder`/cifar10, whose images are noise around a level that
    tells the class."""
    noise = random.Random(20)
    place = pathlib.Path(folder) / "cifar10"
    place.mkdir(parents=True)
    for file, count in (("data_batch_1.bin", train), ("test_batch.bin", test)):
        records = bytearray()
        for _ in range(count):
            label = noise.randrange(10)
            records += bytes([label, *(20 * label + noise.randrange(60) for _ in range(3072))])
        (place / file).write_bytes(records)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run(command, folder, expected=0, **variables):
    """Returns standard output and error of a program that must end with an expected code."""
    result = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True,
                            text=True, check=False, env=clean_environment(**variables))
    if result.returncode not in (expected if isinstance(expected, tuple) else (expected,)):
        raise AssertionError(f"{command} ended with {result.returncode}, expected {expected}:\n"
                             f"{result.stdout}{result.stderr}")
    return result.stdout + result.stderr
