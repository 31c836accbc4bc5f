# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Data sets in the IDX format of MNIST, plain or gzip, as ddpbench reads them (datasets/)."""
import gzip
import math
import os
import struct

from .errors import UsageError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FOLDERS = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw"}  # torchvision's


def find(data_dir, name):
    """Returns the paths of the four files. UsageError without them: this peer draws no digits."""
    directory = os.path.join(data_dir, name)
    if not os.path.isdir(directory) and os.path.isdir(os.path.join(data_dir, FOLDERS[name])):
        directory = os.path.join(data_dir, FOLDERS[name])
    paths = []
    for file in FILES:
        plain = os.path.join(directory, file)
        found = [path for path in (plain, plain + ".gz") if os.path.exists(path)]
        if not found:
            raise UsageError(
                f"data set {name}: {plain} is missing (with or without .gz). ddpbench draws "
                f"synthetic digits in its place, this peer does not: `ddpbench data fetch {name}` "
                "gets the real ones, or give --data-dir")
        paths.append(found[0])
    return paths


def read(path, dimensions):
    """Returns (shape, bytes) of a file."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, 8, dimensions)):
        raise UsageError(f"{path}: offset 0: expected an IDX header of {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    size = math.prod(shape)
    if size == 0 or len(content) != header + size:
        raise UsageError(f"{path}: offset 4: expected {size} bytes of data as the header says, "
                         f"found {len(content) - header}")
    return shape, content[header:]


def read_split(images_path, labels_path):
    """Returns (images' shape, their bytes, labels) of one of the two parts."""
    shape, images = read(images_path, 3)
    (count,), labels = read(labels_path, 1)
    if count != shape[0]:
        raise UsageError(f"{labels_path}: offset 4: expected {shape[0]} labels, as many as there "
                         f"are images in {images_path}, found {count}")
    return shape, images, labels


def header_of(path):
    """Returns the number of images in an image file, and their rows and columns."""
    opener = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            head = file.read(16)
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if len(head) < 16 or head[:4] != b"\0\0\x08\x03" or head[4:8] == b"\0\0\0\0":
        raise UsageError(f"{path}: offset 0: expected an IDX header of images")
    return struct.unpack(">3I", head[4:])


def sample_count(path):
    return header_of(path)[0]


def image_size(path):
    return header_of(path)[1:]
