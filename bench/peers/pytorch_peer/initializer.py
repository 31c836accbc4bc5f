# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""ddpbench's initial weights (kernels/nn/weights.h): the same bits from the same seed.

Element k of a tensor is word k mod 4 of Philox4x32-10 (Salmon et al., SC'11) with the counter
(k / 4, hash of the tensor's name) and the seed as its key, made uniform in (-bound, bound).
"""
import math

import torch

from . import hashes

LOW = 0xFFFFFFFF


def high_and_low(words, multiplier):
    """The halves of 32 x 32 bit products. int64 holds their bits; the shift drops its sign."""
    product = words * multiplier
    return (product >> 32) & LOW, product & LOW


def philox(counters, seed, name_hash):
    """Returns four tensors of 32-bit words, in int64, one element for each of `counters`."""
    c = [counters & LOW, counters >> 32,
         torch.full_like(counters, name_hash & LOW), torch.full_like(counters, name_hash >> 32)]
    key = [seed & LOW, seed >> 32]
    for _ in range(10):
        high0, low0 = high_and_low(c[0], 0xD2511F53)
        high1, low1 = high_and_low(c[2], 0xCD9E8D57)
        c = [high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) & LOW, (key[1] + 0xBB67AE85) & LOW]
    return c


def draw(name, shape, fan_in, seed):
    """Draws U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's default, from ddpbench's numbers."""
    count = math.prod(shape)
    counters, of_name = torch.arange((count + 3) // 4), hashes.hash_bytes(name.encode())
    words = torch.stack(philox(counters, seed, of_name), 1)
    odd = (words.reshape(-1)[:count] >> 9) * 2 + 1 - (1 << 23)
    bound = torch.tensor(1.0 / math.sqrt(fan_in), dtype=torch.float64).to(torch.float32)
    return (odd.to(torch.float32) * 2.0**-23 * bound).reshape(shape)
