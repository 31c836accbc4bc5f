# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes within a network, of one sample each. Needs no PyTorch."""
import math

from . import blocks
from .blocks import pair


def windows(layer, extents, kernel):
    """How many places a window has along each axis."""
    found = []
    for extent, size, stride, dilation, (begin, end) in zip(
            extents, kernel, pair(layer.get("stride", kernel)), pair(layer.get("dilation", 1)),
            blocks.sides(layer)):
        room = extent + begin + end - dilation * (size - 1) - 1
        if not layer.get("ceil_mode", False):
            found.append(room // stride + 1)
            continue
        places = -(-room // stride) + 1
        found.append(places - ((places - 1) * stride >= extent + begin))
    return tuple(found)


def sized(layer, inputs, read):
    """An upsample_bilinear without a size has a second input, whose size it takes; `read` are the
    shapes of its inputs. Returns the layer with the size and its other inputs."""
    if layer["type"] != "upsample_bilinear" or "output_size" in layer:
        return layer, inputs
    return {**layer, "output_size": list(read[1][1:])}, inputs[:1]


def of_layer(layer, inputs):
    """The shape that a layer gives; `inputs` are the shapes that it reads."""
    kind, first = layer["type"], inputs[0]
    if kind == "conv2d":
        strided = {"stride": 1, **layer}
        return (layer["out_channels"], *windows(strided, first[1:], pair(layer["kernel"])))
    if kind in ("max_pool2d", "avg_pool2d"):
        return (first[0], *windows(layer, first[1:], pair(layer["kernel"])))
    if kind == "upsample_bilinear":
        layer, _ = sized(layer, inputs, inputs)
    if kind in ("adaptive_avg_pool2d", "upsample_bilinear"):
        return (first[0], *pair(layer["output_size"]))
    if kind == "linear":
        return (layer["out_features"],)
    if kind == "concat":
        return (sum(shape[0] for shape in inputs), *first[1:])
    return first


def of_layers(model, layers):
    shapes = {blocks.INPUT: tuple(model["input"])}
    for layer, inputs in blocks.ordered(layers):
        shapes[layer["name"]] = of_layer(layer, [shapes[name] for name in inputs])
    return shapes


def of_model(model):
    """Returns what the data set must fit: "input", "classes", the "map" [rows, columns] of a sample's
    predictions (None: there is one), and the label that the loss ignores (None: there is none)."""
    layers, outputs = blocks.placed(model)
    shapes = of_layers(model, layers)
    logits = shapes[outputs[0]]
    return {"input": list(model["input"]), "classes": logits[0],
            "map": list(logits[1:]) if math.prod(logits[1:]) > 1 else None,
            "ignored": model.get("loss", {}).get("ignore_index")}
