# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a torch module from a ddpbench model file (configs/models): same layers, names, shapes."""
import json
import math

import torch
from torch import nn
from torch.nn import functional

from . import blocks, initializer, shapes
from .blocks import INPUT, pair
from .errors import UsageError


class UnevenConv2d(nn.Conv2d):
    """Pads the sides of its input differently. It is a class of its own so that the tensors keep the
    layer's name."""
    sides = ()

    def forward(self, input):
        return super().forward(functional.pad(input, self.sides))


def convolution(layer, shape):
    (top, bottom), (left, right) = blocks.sides(layer)
    even = (top, left) == (bottom, right)
    module = convolution_of(nn.Conv2d if even else UnevenConv2d, layer, shape,
                            (top, left) if even else 0)
    module.sides = (left, right, top, bottom)
    return module


def convolution_of(kind, layer, shape, padding):
    stride = pair(layer.get("stride", 1))
    return kind(shape[0], layer["out_channels"], pair(layer["kernel"]), stride, padding,
                     dilation=pair(layer.get("dilation", 1)), groups=layer.get("groups", 1),
                     bias=layer.get("bias", True))


def window(layer):
    kernel = pair(layer["kernel"])
    (top, bottom), (left, right) = blocks.sides(layer)
    if (top, left) != (bottom, right):
        raise UsageError(f"the layer {layer['name']} pads its sides differently, as no pool of "
                         "PyTorch does")
    return kernel, pair(layer.get("stride", kernel)), (top, left)


def pooling(layer, _shape):
    return nn.MaxPool2d(*window(layer), ceil_mode=layer.get("ceil_mode", False))


def averaging(layer, _shape):
    return nn.AvgPool2d(*window(layer), layer.get("ceil_mode", False),
                        layer.get("count_include_pad", True))


def adaptive_averaging(layer, _shape):
    return nn.AdaptiveAvgPool2d(pair(layer["output_size"]))


def normalization(layer, shape):
    return nn.BatchNorm2d(shape[0], layer.get("eps", 1e-5), layer.get("momentum", 0.1),
                          layer.get("affine", True))


class UpsampleBilinear(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, input):
        return functional.interpolate(input, self.size, mode="bilinear", align_corners=False)


class Linear(nn.Linear):
    """Flattens its input. It is a class of its own so that the tensors keep the layer's name."""

    def forward(self, input):
        return super().forward(input.flatten(1))


def linear(layer, shape):
    features = 1
    for extent in shape:
        features *= extent
    return Linear(features, layer["out_features"], bias=layer.get("bias", True))


class Add(nn.Module):
    def forward(self, first, second):
        return first + second


class Concat(nn.Module):
    def forward(self, *inputs):
        return torch.cat(inputs, 1)


NO_LABEL = -100  # PyTorch's default of ignore_index

MAKERS = {"conv2d": convolution, "max_pool2d": pooling, "linear": linear,
          "avg_pool2d": averaging, "adaptive_avg_pool2d": adaptive_averaging,
          "batch_norm2d": normalization,
          # PyTorch draws other random numbers: runs are alike with p = 0 alone.
          "dropout": lambda layer, _shape: nn.Dropout(layer.get("p", 0.5)),
          "relu": lambda _layer, _shape: nn.ReLU(), "relu6": lambda _layer, _shape: nn.ReLU6(),
          "tanh": lambda _layer, _shape: nn.Tanh(), "sigmoid": lambda _layer, _shape: nn.Sigmoid(),
          "add": lambda _layer, _shape: Add(),
          "upsample_bilinear": lambda layer, _shape: UpsampleBilinear(pair(layer["output_size"])),
          "concat": lambda _layer, _shape: Concat()}


def place(root, name, module):
    """Registers `module` under a name that may have dots, as in PyTorch's state_dict keys."""
    *folders, last = name.split(".")
    for folder in folders:
        if folder not in dict(root.named_children()):
            root.add_module(folder, nn.Module())
        root = getattr(root, folder)
    root.add_module(last, module)


class Network(nn.Module):
    """The layers in an order in which each follows its inputs."""

    def __init__(self, model):
        super().__init__()
        self.input_shape = tuple(model["input"])
        layers, self.outputs = blocks.placed(model)
        self.order = []  # (name, names of the inputs)
        found = {INPUT: self.input_shape}
        for layer, inputs in blocks.ordered(layers):
            read = [found[name] for name in inputs]
            layer, inputs = shapes.sized(layer, inputs, read)
            module = MAKERS[layer["type"]](layer, read[0])
            default = model.get("init", {}).get(layer["type"], "uniform_fan_in")
            module.start = layer.get("init", default)
            module.requires_grad_(layer.get("trainable", True))
            place(self, layer["name"], module)
            self.order.append((layer["name"], inputs))
            found[layer["name"]] = shapes.of_layer(layer, read)
        self.predictions = math.prod(found[self.outputs[0]][1:])  # of a sample
        loss = model.get("loss", {})
        self.label_smoothing = loss.get("label_smoothing", 0.0)
        self.ignore_index = loss.get("ignore_index", NO_LABEL)
        self.auxiliary = [(each.get("weight", 1), each.get("loss", {}).get("label_smoothing", 0.0))
                          for each in model.get("auxiliary", [])]

    def forward(self, images):
        # Modules are looked up by name: DataParallel copies the registered ones, not this list.
        values = {INPUT: images}
        for name, inputs in self.order:
            values[name] = self.get_submodule(name)(*[values[key] for key in inputs])
        logits = [values[name] for name in self.outputs]
        if self.predictions == 1:
            logits = [each.flatten(1) for each in logits]
        return tuple(logits) if self.training and self.auxiliary else logits[0]


    def loss_of(self, outputs, labels):
        """PyTorch's mean over the labels that are not ignored: over none it is NaN, and
        DistributedDataParallel averages these means over its ranks, however many labels each has.
        `outputs`: what forward() returns."""
        def mean(logits, smoothing):
            return functional.cross_entropy(logits, labels, ignore_index=self.ignore_index,
                                            label_smoothing=smoothing)

        loss = mean(main_output(outputs), self.label_smoothing)
        if not isinstance(outputs, tuple):
            return loss
        for logits, (weight, smoothing) in zip(outputs[1:], self.auxiliary):
            loss = loss + weight * mean(logits, smoothing)
        return loss

    def hits(self, logits, labels):
        """How many labels count, and how many of these are predicted."""
        valid = labels != self.ignore_index
        return valid.sum(), ((logits.argmax(1) == labels) & valid).sum()


def main_output(outputs):
    """The logits that are evaluated: in training auxiliary ones may stand behind them."""
    return outputs[0] if isinstance(outputs, tuple) else outputs


def load(path):
    """ddpbench explains errors in a model file; here it is right or refused."""
    try:
        with open(path, encoding="utf-8") as file:
            return Network(json.load(file))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no model file: {type(error).__name__} {error}; "
                         "`ddpbench --dry-run` says more") from error


def fan_in(module):
    return module.weight[0].numel()


def normal_weight(name, parameter, start, seed):
    """`start`: the deviation of weights, or "normal_fan_out", as nn.init.kaiming_normal_ with that
    mode. Biases are 0."""
    if parameter.dim() < 2:
        return torch.zeros(parameter.shape)
    if start == "normal_fan_out":
        start = math.sqrt(2 / (parameter.numel() // parameter.shape[1]))
    return initializer.draw_normal(name, tuple(parameter.shape), start, seed)


def initial_weights(network, seed):
    """Returns name -> tensor in PyTorch's order with ddpbench's values: weights, then buffers."""
    weights = {}
    for name, parameter in network.named_parameters():
        module = network.get_submodule(name.rsplit(".", 1)[0])
        if isinstance(module, nn.BatchNorm2d):
            weights[name] = parameter.detach().clone()
        elif module.start != "uniform_fan_in":
            weights[name] = normal_weight(name, parameter, module.start, seed)
        else:
            weights[name] = initializer.draw(name, tuple(parameter.shape), fan_in(module), seed)
    weights.update((name, buffer.clone()) for name, buffer in network.named_buffers())
    return weights


def tensors(network):
    """Returns name -> tensor of all that a checkpoint has: parameters, then buffers."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def set_weights(network, weights, origin):
    """Sets in place, so that holders of the parameters (DDP's buckets, a CUDA graph) stay valid."""
    parameters = tensors(network)
    for name in sorted(parameters.keys() ^ weights.keys()):
        raise UsageError(f"{origin}: the tensor {name} is "
                         f"{'missing' if name in parameters else 'not of this network'}")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise UsageError(f"{origin}: {name} has the shape {list(weights[name].shape)}, the "
                             f"network {list(parameter.shape)}")
        with torch.no_grad():
            parameter.copy_(weights[name])
