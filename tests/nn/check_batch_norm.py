# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a step of the tests' normalized network with PyTorch's.

Usage: check_batch_norm.py FOLDER. There, before.safetensors and after.safetensors are checkpoints
around one training step without update, gradients.safetensors has its gradients, and
batch.safetensors "input", "coefficients" (the loss is the sum of their products with the logits),
"logits" of the training and "evaluated" logits after it. Exit status 0: equal to rounding; 77:
there is no PyTorch here.
"""
import sys

from check_safetensors import load, torch
from torch import nn

# The longest sums are over 6 samples of 8 x 7 pixels, and those of the statistics amplify them by
# the normalisation: n * 2^-24 of the largest value, as in gradient_test.cpp, twice.
TOLERANCE = 4 * 6 * 8 * 7 * 2.0**-24


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 18, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(18)
        self.left = nn.Conv2d(18, 18, 3, padding=1, bias=False)
        self.left_norm = nn.BatchNorm2d(18, eps=0.001, momentum=0.3)
        self.right = nn.Conv2d(18, 18, 1, bias=False)
        self.right_norm = nn.BatchNorm2d(18)
        self.last_norm = nn.BatchNorm2d(18, affine=False)
        self.head = nn.Linear(18 * 4 * 3, 3)

    def forward(self, x):
        x = torch.relu(self.stem_norm(self.stem(x)))
        x = torch.relu(self.left_norm(self.left(x)) + self.right_norm(self.right(x)))
        x = nn.functional.max_pool2d(self.last_norm(x), 2)
        return self.head(x.flatten(1))


def differs(name, ours, theirs):
    if ours.dtype == torch.int64:
        return not torch.equal(ours, theirs)
    error = (ours - theirs).abs().max().item()
    size = theirs.abs().max().item()
    print(f"{name}: largest difference {error:.3g} of {size:.3g}")
    return error > TOLERANCE * size


def main(folder):
    torch.set_num_threads(1)
    model = Normalized()
    model.load_state_dict(load(f"{folder}/before.safetensors"))  # strict
    batch = load(f"{folder}/batch.safetensors")
    logits = model(batch["input"])
    (logits * batch["coefficients"]).sum().backward()
    wrong = differs("logits", batch["logits"], logits.detach())
    after = load(f"{folder}/after.safetensors")
    assert after.keys() == model.state_dict().keys()
    for name, theirs in model.state_dict().items():
        wrong |= differs(name, after[name], theirs)
    gradients = load(f"{folder}/gradients.safetensors")
    for name, parameter in model.named_parameters():
        wrong |= differs(name + " gradient", gradients[name], parameter.grad)
    model.eval()
    with torch.no_grad():
        wrong |= differs("evaluated logits", batch["evaluated"], model(batch["input"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
