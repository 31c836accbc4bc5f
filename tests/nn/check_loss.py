# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a loss and its gradient with PyTorch's, as bench/peers builds it.

Usage: check_loss.py FOLDER. There, model.json is a network, and batch.safetensors has "logits" and
"labels" of a batch, the "loss", which is a mean, and its "gradient". Exit status 0: equal to
rounding; 77: there is no PyTorch here.
"""
import pathlib
import sys

from check_safetensors import load, torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "peers"))
from pytorch_peer import network  # noqa: E402

EPSILON = 2.0**-23


def main(folder):
    torch.set_num_threads(1)
    batch = load(f"{folder}/batch.safetensors")
    logits = batch["logits"].requires_grad_()
    loss = network.load(f"{folder}/model.json").loss_of(logits, batch["labels"].long())
    loss.backward()
    # Sums of as many exponentials as there are classes, and differences of logits below 16; the
    # gradient of a mean is as much smaller.
    tolerance = EPSILON * (logits.shape[1] + 16)
    loss_error = abs(loss.item() - batch["loss"].item())
    error = (logits.grad - batch["gradient"]).abs().max().item()
    largest = logits.grad.abs().max().item()
    print(f"loss {loss.item():.6g}, difference {loss_error:.3g}; largest difference of gradients "
          f"{error:.3g} of {largest:.3g}")
    return 0 if loss_error <= tolerance and error <= tolerance * largest else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
