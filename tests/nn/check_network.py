# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a training step of a network with PyTorch's, as bench/peers builds it.

Usage: check_network.py FOLDER. There, model.json is the network, checkpoint.safetensors what it
started from, gradients.safetensors the step's gradients, and batch.safetensors has "input",
"coefficients" (the loss is the sum of their products with the logits) and "logits". Exit status 0:
equal to 1e-4 of each tensor's largest value; 77: there is no PyTorch here.
"""
import pathlib
import sys

from check_safetensors import load, torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "peers"))
from pytorch_peer import network  # noqa: E402

TOLERANCE = 1e-4


def differs(name, ours, theirs):
    error, size = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    if error > TOLERANCE * size:
        print(f"{name}: largest difference {error:.3g} of {size:.3g}")
    return error > TOLERANCE * size


def main(folder):
    torch.set_num_threads(1)
    model = network.load(f"{folder}/model.json")
    model.load_state_dict(load(f"{folder}/checkpoint.safetensors"))  # strict
    batch = load(f"{folder}/batch.safetensors")
    logits = model(batch["input"])
    (logits * batch["coefficients"]).sum().backward()
    wrong = differs("logits", batch["logits"], logits.detach())
    gradients = load(f"{folder}/gradients.safetensors")
    for name, parameter in model.named_parameters():
        wrong |= differs(name + " gradient", gradients[name], parameter.grad)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
