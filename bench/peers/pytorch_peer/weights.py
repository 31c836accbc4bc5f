# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Weights in safetensors files, as ddpbench's --load-model and --save-model.

The format: a 64-bit little-endian length, that much JSON (dtype, shape and data_offsets of each
tensor), the data. This file reads it because few PyTorch installations have safetensors.
"""
import ctypes
import json
import os
import struct

import torch

from .errors import UsageError

DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read(path):
    try:
        with open(path, "rb") as file:
            content = bytearray(file.read())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        data = content[8 + length:]
        return {name: tensor(data, entry) for name, entry in header.items()
                if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no valid safetensors file of F32 and I64 tensors: {error}") from error


def tensor(data, entry):
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"a tensor of dtype {entry['dtype']}")
    dtype = DTYPES[entry["dtype"]]
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(data):
        raise ValueError(f"data_offsets {begin} to {end} of {len(data)} bytes")
    if begin == end:
        return torch.empty(entry["shape"], dtype=dtype)
    count = (end - begin) // torch.empty(0, dtype=dtype).element_size()
    values = torch.frombuffer(data, dtype=dtype, count=count, offset=begin)
    return values.clone().reshape(entry["shape"])


def write(path, tensors):
    """Writes a temporary file beside `path`, syncs it and renames it."""
    header, parts, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in tensors.items():
        dtype = "I64" if values.dtype == torch.int64 else "F32"
        values = values.detach().cpu().to(DTYPES[dtype]).contiguous()
        data = ctypes.string_at(values.data_ptr(), values.numel() * values.element_size())
        header[name] = {"dtype": dtype, "shape": list(values.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
