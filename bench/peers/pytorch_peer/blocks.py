# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the blocks of a model file in their places (docs/networks.md). ddpbench checks such files and
explains what is wrong in them; here they are right, or some error stops the program."""

from .errors import UsageError

INPUT = "input"


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def sides(layer):
    """The padding of a conv2d or a pool: (top, bottom), (left, right)."""
    padding = layer.get("padding", 0)
    if padding == "same":
        kernel, dilation = pair(layer["kernel"]), pair(layer.get("dilation", 1))
        spans = [each * (extent - 1) for each, extent in zip(dilation, kernel)]
        return tuple((span // 2, span - span // 2) for span in spans)
    if not isinstance(padding, int) and len(padding) == 4:
        return tuple(padding[:2]), tuple(padding[2:])
    return tuple((each, each) for each in pair(padding))


def placed(model):
    """Returns the layers, each with its inputs, under the names of the whole network, and the names of
    the layers that give the outputs, auxiliary ones last."""
    placement = Placement(model.get("blocks", {}))
    last = placement.add(model["layers"], "", {INPUT: INPUT}, INPUT)
    for layer in placement.layers:
        layer["inputs"] = [placement.meaning(name) for name in layer["inputs"]]
    names = [model.get("output", last), *(each["output"] for each in model.get("auxiliary", []))]
    return placement.layers, [placement.meaning(name) for name in names]


class Placement:
    def __init__(self, blocks):
        self.blocks = blocks
        self.layers = []
        self.outputs = {}  # name of a placed block -> name of what it stands for

    def meaning(self, name):
        while name in self.outputs:
            name = self.outputs[name]
        return name

    def add(self, entries, prefix, inputs, previous):
        """`inputs` are the names that mean something else here. Returns what the last entry gives."""
        for entry in entries:
            name = prefix + entry["name"]
            reads = [previous]
            if "inputs" in entry:
                reads = [inputs.get(read, prefix + read) for read in entry["inputs"]]
            if "block" in entry:
                first = len(self.layers)
                self.place(entry, name, reads)
                if not entry.get("trainable", True):
                    for layer in self.layers[first:]:
                        layer["trainable"] = False
            else:
                self.layers.append({**entry, "name": name, "inputs": reads})
            previous = name
        return previous

    def place(self, entry, name, reads):
        block = self.blocks[entry["block"]]
        values = {**block.get("parameters", {}), **entry.get("with", {})}
        entries = with_values(block["layers"], values)
        first = entry.get("first", 0)
        numbers = range(first, first + entry["repeat"]) if "repeat" in entry else [None]
        for number in numbers:
            once = name if number is None else f"{name}.{number}"
            inputs = dict(zip(block.get("inputs", [INPUT]), reads, strict=True))
            last = self.add(entries, once + ".", inputs, reads[0])
            self.outputs[once] = f"{once}.{block['output']}" if "output" in block else last
            reads = [once]
        if "repeat" in entry:
            self.outputs[name] = reads[0]


def with_values(value, values):
    if isinstance(value, str) and value.startswith("$"):
        return values[value[1:]]
    if isinstance(value, list):
        return [with_values(part, values) for part in value]
    if isinstance(value, dict):
        return {key: with_values(part, values) for key, part in value.items()}
    return value


def ordered(layers):
    """Returns (layer, names of its inputs) in topological order, the file's where possible."""
    waiting = [(layer, layer["inputs"]) for layer in layers]
    known, result = {INPUT}, []
    while waiting:
        ready = next((entry for entry in waiting if known.issuperset(entry[1])), None)
        if ready is None:
            raise UsageError("the layers of the model form a cycle or read what is no layer")
        waiting.remove(ready)
        known.add(ready[0]["name"])
        result.append(ready)
    return result
