# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10's binary files, in a folder or in the archive as published, where ddpbench finds them
(datasets/readers.h). A record is a byte with the label and then the image: red, green, blue."""
import os
import tarfile

from .errors import UsageError

FOLDER = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
RECORD, RECORDS, CLASSES = 1 + 3 * 32 * 32, 10000, 10


def find(data_dir, name):
    """Returns {"train": paths, "test": paths}, each path with the name of a member of the archive or
    None; None where there is no file."""
    place = os.path.join(data_dir, name)
    for folder in (place, os.path.join(data_dir, FOLDER), os.path.join(place, FOLDER)):
        there = [file for file in (*TRAIN, TEST) if os.path.exists(os.path.join(folder, file))]
        for needed in (TRAIN[0], TEST):
            if there and needed not in there:
                raise UsageError(f"data set {name} is incomplete: {os.path.join(folder, needed)} is "
                                 f"missing, while {there[0]} is there")
        if there:
            return {"train": [(os.path.join(folder, file), None) for file in there if file != TEST],
                    "test": [(os.path.join(folder, TEST), None)]}
    archive = os.path.join(place, ARCHIVE)
    if not os.path.exists(archive):
        return None
    return {"train": [(archive, f"{FOLDER}/{file}") for file in TRAIN],
            "test": [(archive, f"{FOLDER}/{TEST}")]}


def count(files):
    """Returns the number of samples of some files, from their sizes."""
    samples = 0
    for path, member in files:
        if member is not None:
            samples += RECORDS
            continue
        size = os.path.getsize(path)
        if size == 0 or size % RECORD or size > RECORDS * RECORD:
            raise UsageError(f"{path}: expected up to {RECORDS} records of {RECORD} bytes, found "
                             f"{size} bytes")
        samples += size // RECORD
    return samples


def content(path, member):
    try:
        if member is None:
            with open(path, "rb") as file:
                return file.read()
        with tarfile.open(path) as archive:
            return archive.extractfile(member).read()
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def read(files):
    """Returns (bytes of the images, labels)."""
    images, labels = [], []
    for path, member in files:
        records = content(path, member)
        if len(records) % RECORD:
            raise UsageError(f"{path}: expected records of {RECORD} bytes, found {len(records)} bytes")
        labels += records[::RECORD]
        images += (records[at + 1:at + RECORD] for at in range(0, len(records), RECORD))
        if max(labels) >= CLASSES:
            raise UsageError(f"{path}: expected labels of 0 to {CLASSES - 1}, found {max(labels)}")
    return b"".join(images), labels
