# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a training step of a network with PyTorch's, as bench/peers builds it.

Usage: check_network.py FOLDER. There, model.json is the network, checkpoint.safetensors what it
started from, gradients.safetensors the step's gradients, and batch.safetensors has "input",
"coefficients" (the loss is the sum of their products with each output) and "logits". Exit status 0:
equal to 1e-4 of each tensor's largest value, or as near as rounding allows; 77: there is no PyTorch
here.

A value that a rectifier or a maximum compares may be so near to the bound that rounding decides, and
then a whole path of the gradient is there or not: a difference that no tolerance of a few units in
the last place covers. How much that is in this step is measured: PyTorch takes it again with input
and parameters changed by as much as rounding changes what layers hand on.
"""
import pathlib
import sys

from check_safetensors import load, torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "peers"))
from pytorch_peer import network  # noqa: E402

TOLERANCE = 1e-4


NOISE = 1e-7  # relative: a unit in the last place of fp32
NOISY_STEPS = 8


def take_step(model, batch, values, noise):
    """{name: tensor}: logits and gradients of `model` with these parameters and buffers."""
    def noisy(tensor):
        return tensor * (1 + noise * torch.randn_like(tensor))

    model.load_state_dict(values)  # strict
    model.zero_grad()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(noisy(parameter))
    outputs = model(noisy(batch["input"]))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum((logits * batch["coefficients"]).sum() for logits in outputs).backward()
    found = {name + " gradient": each.grad.clone() for name, each in model.named_parameters()}
    return {"logits": outputs[0].detach(), **found}


def differs(name, ours, theirs, by_rounding):
    error, size = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    if error <= max(TOLERANCE * size, 2 * by_rounding):
        return False
    print(f"{name}: largest difference {error:.3g} of {size:.3g}; rounding: {by_rounding:.3g}")
    return True


def main(folder):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = network.load(f"{folder}/model.json")
    values = load(f"{folder}/checkpoint.safetensors")
    batch = load(f"{folder}/batch.safetensors")
    theirs = take_step(model, batch, values, 0)
    noisy = [take_step(model, batch, values, NOISE) for _ in range(NOISY_STEPS)]
    gradients = load(f"{folder}/gradients.safetensors")
    ours = {"logits": batch["logits"]}
    ours.update((name + " gradient", tensor) for name, tensor in gradients.items())
    wrong = False
    for name, tensor in theirs.items():
        by_rounding = max((each[name] - tensor).abs().max().item() for each in noisy)
        wrong |= differs(name, ours[name], tensor, by_rounding)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
