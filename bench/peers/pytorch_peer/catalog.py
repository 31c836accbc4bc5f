# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The data sets that this peer reads or draws, as ddpbench's catalog has them (datasets/catalog.cpp).
Needs no PyTorch; synthetic images need NumPy."""
import math
from typing import NamedTuple

from . import cifar, idx, synthetic
from .errors import UsageError

SYNTHETIC = "synthetic"


class Entry(NamedTuple):
    shape: tuple  # of an image: channels, height, width; None: any
    classes: int
    samples: tuple  # published, to train and to test
    mean: list  # of bytes / 255: one for all channels, or one a channel
    std: list
    reader: str


ENTRIES = {
    "mnist": Entry((1, 28, 28), 10, (60000, 10000), [0.1307], [0.3081], "idx"),
    "fashion-mnist": Entry((1, 28, 28), 10, (60000, 10000), [0.2860], [0.3530], "idx"),
    "cifar10": Entry((3, 32, 32), 10, (50000, 10000), [0.4914, 0.4822, 0.4465],
                     [0.2470, 0.2435, 0.2616], "cifar"),
    SYNTHETIC: Entry(None, 0, (), [synthetic.MEAN], [synthetic.DEVIATION], SYNTHETIC)}


def fits(entry, network):
    if entry.shape is None:
        return True
    return (network["map"] is None and tuple(network["input"]) == entry.shape
            and entry.classes <= network["classes"])


def settle(options, network):
    """Settles what the options leave to the network and the data set, as resolve_dataset of
    bench/plan/data_places.h: the name "auto", mean and deviation."""
    name = options["dataset/name"]
    if name == "auto":
        name = next((known for known, entry in ENTRIES.items() if fits(entry, network)), SYNTHETIC)
        options["dataset/name"] = name
    if name not in ENTRIES:
        raise UsageError(f"data set {name}: this peer has {', '.join(ENTRIES)}")
    for key in ("mean", "std"):
        if options[f"dataset/{key}"] is None:
            own = getattr(ENTRIES[name], key)
            options[f"dataset/{key}"] = own[0] if len(own) == 1 else own


def drawn(name, shape, classes, samples, seed, labels=None, ignored=None):
    """`labels`: rows and columns of a sample's labels, of which some are `ignored`; None: one label."""
    each = f" with {labels[0]} x {labels[1]} labels each" if labels else ""
    return {"name": name, "source": "synthetic", "reader": SYNTHETIC, "shape": list(shape),
            "classes": classes, "seed": seed, "train_samples": samples[0], "test_samples": samples[1],
            "map": labels, "ignored": ignored,
            "note": f"synthetic images of {text_of(shape)} in {classes} classes{each}, {samples[0]} to "
                    f"train and {samples[1]} to test (seed {seed})"}


def text_of(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


def from_files(name, entry, shape, files, samples):
    there = {"name": name, "source": "files", "reader": entry.reader, "shape": list(shape),
             "classes": entry.classes, "files": files, "train_samples": samples[0],
             "test_samples": samples[1], "map": None}
    parts = [f"{here} of the {published} published {what} samples"
             for here, published, what in zip(samples, entry.samples, ("training", "test"))
             if here < published]
    return {**there, "note": " and ".join(parts)} if parts else there


def locate(options, network, data_dir):
    """Returns what reports and ranks know of the data set. REQUIRES: settle."""
    name = options["dataset/name"]
    entry = ENTRIES[name]
    if entry.reader == "idx":
        files = idx.find(data_dir, name)
        shape = (1, *idx.image_size(files[0]))
        return from_files(name, entry, shape, files, [idx.sample_count(files[at]) for at in (0, 2)])
    if entry.reader == SYNTHETIC:
        shape = tuple(network["input"])
        return drawn(name, shape, network["classes"], synthetic.counts(shape, network["map"]),
                     options["seed"], network["map"], network["ignored"])
    files = cifar.find(data_dir, name)
    if files is not None:
        samples = [cifar.count(files[part]) for part in ("train", "test")]
        return from_files(name, entry, entry.shape, files, samples)
    if options["dataset/on_missing"] != "synthesize":
        raise UsageError(f"data set {name} was not found in {data_dir}/{name}; `ddpbench data fetch "
                         f"{name}` downloads it")
    return drawn(name, entry.shape, entry.classes, entry.samples, options["seed"])


def check_can_draw(data):
    if data["reader"] == SYNTHETIC:
        synthetic.check_numpy()


def check_fits(data, network, model_path):
    """The refusals of check_dataset_fits in bench/plan/data_places.cpp."""
    name = data["name"]
    if network["input"] != data["shape"]:
        raise UsageError(f"{model_path}: /input: the network takes images of "
                         f"{text_of(network['input'])}, but {name} has {text_of(data['shape'])}")
    if network["map"] and not data["map"]:
        raise UsageError(f"{model_path}: the network has a prediction for each of "
                         f"{math.prod(network['map'])} pixels, but {name} has one label an image")
    if network["classes"] < data["classes"]:
        raise UsageError(f"{model_path}: /output: the network has {network['classes']} outputs, but "
                         f"{name} has {data['classes']} classes")


def check_augmentation(options, data):
    if options["dataset/augment"] and data["map"]:
        raise UsageError("dataset.augment: crops and flips would move the images and not their maps of "
                         "labels; do not augment")


def check_normalization(options, data):
    channels = data["shape"][0]
    for key in ("mean", "std"):
        given = options[f"dataset/{key}"]
        if isinstance(given, list) and len(given) != channels:
            raise UsageError(f"dataset.{key} has {len(given)} values, but the images of {data['name']} "
                             f"have {channels} channel{'' if channels == 1 else 's'}; give one for "
                             "all, or one a channel")


def read(data, part):
    """Returns (bytes of the images, labels) of "train" or "test": channel by channel, row by row."""
    if data["reader"] == SYNTHETIC:
        first = synthetic.TEST_SAMPLES_FROM if part == "test" else 0
        labels = synthetic.Maps(*data["map"], data["ignored"]) if data["map"] else None
        return synthetic.draw(data["seed"], tuple(data["shape"]), data["classes"], first,
                              data[f"{part}_samples"], labels)
    if data["reader"] == "cifar":
        return cifar.read(data["files"][part])
    at = 2 if part == "test" else 0
    _, images, labels = idx.read_split(data["files"][at], data["files"][at + 1])
    return images, list(labels)
