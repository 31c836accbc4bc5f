#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Records a training step of each published network, as torchvision computes it in double precision.

    record_steps.py record [NETWORK...]     writes tests/nn/steps/NETWORK.txt
    record_steps.py check [NETWORK...]      compares these files with torchvision here; exit status 1
                                            where they differ, 77 without PyTorch or torchvision

recorded_step_test.cpp takes the same steps without PyTorch. A line of a file has a name and numbers:

    side, seed    of the input: images of 3 x side x side, whose element k is
                  (split_mix(seed * 2^32 + k) >> 40) / 2^23 - 1
    loss          the mean cross-entropy of 2 images with the labels 3 and 7
    logits        norm and sums, see below
    a parameter   the same of its gradient

The norm is Euclid's. The three sums are of all elements with signs that look random: bits 0 to 2 of
split_mix(k) say which elements are subtracted. Such a sum of a difference of two tensors is about as
large as its norm, wherever they differ, so the sums tell tensors apart as all elements would.

Weights are ddpbench's for seed 1. Batch norm is settled (`settle`), so that rounding stays rounding:
with the usual start a value that a rectifier compares with 0 is so near to it, now and then, that
rounding decides whether a path of the gradient is there. The seed of the input is the first for which
all values that rectifiers and maximum pools compare are MARGIN roundings apart. Then single precision
differs from double by about 1e-5 of a tensor's norm; the test allows 1e-4.

ResNet-20 is not torchvision's: it is built of PyTorch's layers (bench/peers). AlexNet and VGG-16 have
96 features in place of 4096 and drop nothing; all else is as published.
"""
import json
import pathlib
import sys

sys.dont_write_bytecode = True

try:
    import numpy
    import torch
    import torchvision
    from torch import nn
except ImportError as error:
    print(error)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench" / "peers"))
from pytorch_peer import network, options  # noqa: E402

NETWORKS = {"resnet20": 32, "alexnet": 64, "vgg16": 32, "resnet18": 64, "resnet34": 64,
            "resnet50": 64, "resnet101": 64, "resnet152": 64, "resnext50_32x4d": 64}  # side
FEATURES = 96
LABELS = torch.tensor([3, 7])
MARGIN = 8  # roundings, each the root mean square of single precision's error in a layer's input
MOST_SEEDS = 1000
BRANCH, SHIFT = 0.2, 3.0
SUMS = 3


def split_mix(values):
    """base/random.h, of an array of uint64."""
    values = (values ^ (values >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return values ^ (values >> numpy.uint64(31))


def images(side, seed):
    k = numpy.arange(len(LABELS) * 3 * side * side, dtype=numpy.uint64) + numpy.uint64(seed << 32)
    values = (split_mix(k) >> numpy.uint64(40)).astype(numpy.float64) * 2.0**-23 - 1
    return torch.from_numpy(values).reshape(len(LABELS), 3, side, side)


def our_network(name):
    """Of PyTorch's layers, from the file in configs/models, reduced as recorded_step_test.cpp does."""
    text = pathlib.Path(options.model_path(name)).read_text(encoding="utf-8")
    for there, here in (("[3, 224, 224]", f"[3, {NETWORKS[name]}, {NETWORKS[name]}]"),
                        ('"out_features": 4096', f'"out_features": {FEATURES}'),
                        ('"p": 0.5', '"p": 0')):
        text = text.replace(there, here)
    return network.Network(json.loads(text))


def reduce_classifier(module):
    linear = [place for place, layer in enumerate(module) if isinstance(layer, nn.Linear)]
    widths = [module[linear[0]].in_features, FEATURES, FEATURES, module[linear[-1]].out_features]
    for place, inputs, outputs in zip(linear, widths, widths[1:]):
        module[place] = nn.Linear(inputs, outputs)
    for layer in module:
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0


def torchvision_network(name):
    if name == "resnet20":
        return our_network(name)
    model = getattr(torchvision.models, name)()
    if hasattr(model, "classifier"):
        reduce_classifier(model.classifier)
    return model


def settle(values):
    """In batch norm the bias is 3 weights: a rectifier passes three channels of four nearly always
    and the fourth nearly never. The last one of a residual branch has weights of 0.2, so that errors
    hardly grow from block to block."""
    last = "bn3" if any(".bn3." in name for name in values) else "bn2"
    for name, weight in values.items():
        layer, _, kind = name.rpartition(".")
        if kind != "weight" or layer + ".running_mean" not in values:
            continue
        weight.fill_(BRANCH if layer.endswith("." + last) else 1.0)
        signs = torch.ones_like(weight)
        signs[3::4] = -1
        values[layer + ".bias"] = SHIFT * weight * signs


def start_values(name):
    values = network.initial_weights(our_network(name), 1)
    settle(values)
    return values


class Bounds:
    """Collects what rectifiers compare with 0 and maximum pools with each other."""

    def __init__(self, model):
        self.found = []
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_pre_hook(lambda _, inputs: self.add(inputs[0]))
            if isinstance(module, nn.MaxPool2d):
                module.register_forward_pre_hook(self.add_pool)

    def add(self, values):
        self.found.append(values.detach().clone())

    def add_pool(self, pool, inputs):
        sides = (pool.padding, pool.padding) if isinstance(pool.padding, int) else pool.padding
        kernel, stride = (each if isinstance(each, tuple) else (each, each)
                          for each in (pool.kernel_size, pool.stride))
        padded = nn.functional.pad(inputs[0].detach(), (sides[1], sides[1], sides[0], sides[0]),
                                   value=-1e30)
        windows = padded.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)
        first, second = windows.topk(2, -1).values.unbind(-1)
        # No gradient passes a maximum of 0: the rectifier before it ends it.
        self.add(torch.where(first > 0, first - second, torch.ones_like(first)))

    def take(self):
        found, self.found = self.found, []
        return found


def margin(single, double):
    """The distance of the nearest two compared values, in roundings."""
    least = float("inf")
    for rough, exact in zip(single, double):
        rounding = (rough - exact).square().mean().sqrt()
        least = min(least, (exact.abs().min() / rounding).item())
    return least


def forward(model, values, batch):
    model.load_state_dict(values)  # strict
    return model.train()(batch)


def step(model, values, batch):
    """{name: tensor} of the loss, the logits and the gradients."""
    model.zero_grad()
    logits = forward(model, values, batch)
    loss = nn.functional.cross_entropy(logits, LABELS)
    loss.backward()
    gradients = {name: each.grad.double() for name, each in model.named_parameters()}
    return {"loss": loss.detach().double(), "logits": logits.detach().double(), **gradients}


def summary(tensor):
    """Norm and sums."""
    flat = tensor.reshape(-1)
    bits = split_mix(numpy.arange(len(flat), dtype=numpy.uint64))
    sums = []
    for place in range(SUMS):
        minus = (bits >> numpy.uint64(place)) & numpy.uint64(1)
        sums.append((flat * torch.from_numpy(1.0 - 2.0 * minus.astype(numpy.float64))).sum().item())
    return [flat.norm().item(), *sums]


def find_seed(single, double, values, side):
    """The first seed whose margin is wide enough, and the margin."""
    of_single, of_double = Bounds(single), Bounds(double)
    for seed in range(1, MOST_SEEDS):
        batch = images(side, seed)
        with torch.no_grad():
            forward(single, values, batch.float())
            forward(double, values, batch)
        found = margin(of_single.take(), of_double.take())
        if found >= MARGIN:
            return seed, found
    raise SystemExit(f"no seed below {MOST_SEEDS} has a margin of {MARGIN} roundings")


def floor_of(norms):
    """Gradients that nearly vanish are sums of large terms with their rounding: no tensor counts for
    less than half the median norm."""
    return 0.5 * sorted(norms)[len(norms) // 2]


def record(name, path):
    side = NETWORKS[name]
    single, double = torchvision_network(name), torchvision_network(name).double()
    values = start_values(name)
    seed, found = find_seed(single, double, values, side)
    batch = images(side, seed)
    rough, exact = step(single, values, batch.float()), step(double, values, batch)
    floor = floor_of([tensor.norm().item() for key, tensor in exact.items() if key != "loss"])
    error = max(((rough[key] - tensor).norm() / max(tensor.norm().item(), floor)).item()
                for key, tensor in exact.items())
    lines = [f"# torchvision {torchvision.__version__}, PyTorch {torch.__version__}, double precision",
             f"# nearest bound: {found:.1f} roundings; single precision differs by {error:.1e}",
             f"side {side}", f"seed {seed}", f"loss {exact.pop('loss').item():.9g}"]
    for key, tensor in exact.items():
        lines.append(f"{key} " + " ".join(f"{number:.7g}" for number in summary(tensor)))
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join([name, *lines[:5]]), flush=True)


def read(path):
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()
             if not line.startswith("#")]
    return {key: [float(number) for number in numbers] for key, *numbers in lines}


def check(name, path):
    """Says whether the recorded step is torchvision's here, to the digits that are recorded."""
    recorded = read(path)
    side, seed = int(recorded.pop("side")[0]), int(recorded.pop("seed")[0])
    model = torchvision_network(name).double()
    found = step(model, start_values(name), images(side, seed))
    found = {key: [tensor.item()] if key == "loss" else summary(tensor)
             for key, tensor in found.items()}
    floor = floor_of([numbers[0] for key, numbers in found.items() if key != "loss"])
    wrong = list(found.keys() ^ recorded.keys())
    for key in found.keys() & recorded.keys():
        allowed = 1e-5 * max(abs(found[key][0]), floor)
        if max(abs(a - b) for a, b in zip(found[key], recorded[key], strict=True)) > allowed:
            wrong.append(key)
    print(f"{name}: " + (f"differs in {', '.join(wrong)}" if wrong else "as recorded"), flush=True)
    return not wrong


def main(action, *names):
    torch.set_num_threads(1)
    right = True
    for name in names or NETWORKS:
        path = HERE / "steps" / f"{name}.txt"
        if action == "record":
            record(name, path)
        else:
            right &= check(name, path)
    return 0 if right else 1


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("record", "check"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
