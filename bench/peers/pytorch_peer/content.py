# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The name and the content of a model file, as ddpbench's reports have them (content_hash of
kernels/nn/model/model.cpp): reports of both programs tell whether they have one network. Needs no
PyTorch."""
import json
import struct

from . import blocks, hashes, shapes
from .errors import UsageError

INITS = ("uniform_fan_in", "normal_fan_out")  # and a normal distribution of a deviation
LATER = [1, 1, 1, 1, 0, 0]  # a layer with these has the hash of older reports


def describe(path):
    """Returns "name", "hash", "has_state" (running statistics) and the shapes of shapes.of_model.
    ddpbench explains errors in a model file; here it is right or refused."""
    try:
        with open(path, encoding="utf-8") as file:
            model = json.load(file)
        layers, _ = blocks.placed(model)
        return {"name": model["name"], "hash": f"{hash_of(model):016x}",
                "has_state": any(layer["type"] == "batch_norm2d" for layer in layers),
                **shapes.of_model(model)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no model file: {type(error).__name__} {error}; "
                         "`ddpbench --dry-run` says more") from error


def hash_of(model):
    layers, outputs = blocks.placed(model)
    order = blocks.ordered(layers)
    places = {layer["name"]: place for place, (layer, _) in enumerate(order)}
    places[blocks.INPUT] = -1
    found = shapes.of_layers(model, layers)
    value = hashes.hash_integers(len(order), model["input"])
    for layer, inputs in order:
        layer, inputs = shapes.sized(layer, inputs, [found[name] for name in inputs])
        start = model.get("init", {}).get(layer["type"], INITS[0])
        value = hash_layer(value, {"init": start, **layer}, [places[name] for name in inputs])
    value = hash_loss(hashes.combine_hash(value, places[outputs[0]]), model.get("loss", {}))
    for each, output in zip(model.get("auxiliary", []), outputs[1:]):
        value = hashes.combine_hash(value, places[output])
        value = hashes.combine_hash(value, bits(each.get("weight", 1)))
        value = hashes.combine_hash(value, bits(each.get("loss", {}).get("label_smoothing", 0)))
    return value


def hash_loss(value, loss):
    if loss.get("label_smoothing", 0):
        value = hashes.combine_hash(value, bits(loss["label_smoothing"]))
    if "ignore_index" in loss:
        value = hashes.combine_hash(value, loss["ignore_index"])
    return value


def hash_layer(value, layer, inputs):
    for text in (layer["name"], layer["type"]):
        value = hashes.hash_bytes(text.encode(), value)
    value = hashes.hash_integers(value, inputs)
    out = layer.get("out_channels", layer.get("out_features", 0))
    value = hashes.hash_integers(value, [out, int(layer.get("bias", True)), *window(layer)])
    later = [layer.get("groups", 1), *blocks.pair(layer.get("dilation", 1)),
             int(layer.get("count_include_pad", True)), *blocks.pair(layer.get("output_size", 0))]
    if later != LATER:
        value = hashes.hash_integers(value, later)
    (top, bottom), (left, right) = blocks.sides(layer)
    uneven = [bottom - top, right - left, int(layer.get("ceil_mode", False))]
    if any(uneven):
        value = hashes.hash_integers(value, uneven)
    if layer["init"] != INITS[0]:
        drawn = layer["init"] in INITS
        value = hashes.hash_integers(value, [INITS.index(layer["init"]) if drawn else len(INITS),
                                             bits(0 if drawn else layer["init"])])
    if not layer.get("trainable", True):
        value = hashes.combine_hash(value, 1)
    if layer["type"] == "dropout":
        return hashes.combine_hash(value, bits(layer.get("p", 0.5)))
    if layer["type"] != "batch_norm2d":
        return value
    return hashes.hash_integers(value, [bits(layer.get("eps", 1e-5)),
                                        bits(layer.get("momentum", 0.1)),
                                        int(layer.get("affine", True))])


def window(layer):
    """Returns kernel, stride and padding, each of rows and columns."""
    kernel = blocks.pair(layer.get("kernel", 0))
    whole = kernel if layer["type"] in ("max_pool2d", "avg_pool2d") else 1
    return [*kernel, *blocks.pair(layer.get("stride", whole)), *(begin for begin, _end in blocks.sides(layer))]


def bits(number):
    return struct.unpack("<Q", struct.pack("<d", number))[0]
