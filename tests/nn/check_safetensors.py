# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Loads weights.safetensors into a PyTorch SimpleCNN and compares its logits with ours.

Usage: check_safetensors.py FOLDER, with weights.safetensors and batch.safetensors ("input" and
"logits") in it. Exit status 0: equal to float32 rounding; 77: there is no PyTorch here.
"""
import json
import struct
import sys

try:
    import numpy
    import torch
    from torch import nn
except ImportError as error:
    print(error)
    sys.exit(77)


def load(path):
    """The tensors of a safetensors file, read as the format's specification says."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    data = content[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = {"F32": "<f4", "I64": "<i8"}[entry["dtype"]]
        values = numpy.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


class SimpleCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def main(folder):
    weights = load(f"{folder}/weights.safetensors")
    batch = load(f"{folder}/batch.safetensors")
    torch.set_num_threads(1)
    model = SimpleCnn()
    assert list(weights) == list(model.state_dict()), list(weights)
    model.load_state_dict(weights)  # strict: names and shapes must be PyTorch's
    with torch.no_grad():
        logits = model(batch["input"])
    difference = (logits - batch["logits"]).abs().max().item()
    # The longest sum of a logit has 3136 terms: n * 2^-24 of the logits' size, as in
    # checkpoint_test.cpp.
    tolerance = 3136 * 2.0**-24 * logits.abs().max().item()
    print(f"largest difference {difference:.3g}, tolerance {tolerance:.3g}")
    return 0 if difference <= tolerance else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
