# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""ddpbench's initial weights (kernels/nn/weights.h): the same bits from the same seed.

Element k of a tensor is word k mod 4 of Philox4x32-10 (Salmon et al., SC'11) with the counter
(k / 4, hash of the tensor's name) and the seed as its key, made uniform in (-bound, bound) or, two
words for two neighbours, normal. All operations are rounded as IEEE 754 says, here and there.
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


def words_of(name, count, seed):
    return torch.stack(philox(torch.arange((count + 3) // 4), seed,
                              hashes.hash_bytes(name.encode())), 1)


LOGARITHM = [1.0 / odd for odd in range(23, 0, -2)]  # of artanh(s) / s, by powers of s * s
SINE = [(-1.0) ** ((odd - 1) // 2) / math.factorial(odd) for odd in range(15, 0, -2)]
COSINE = [(-1.0) ** (even // 2) / math.factorial(even) for even in range(16, -1, -2)]


def polynomial(x, coefficients):
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def logarithm(x):
    half, exponent = torch.frexp(x)
    doubled = half < 0.7
    m = torch.where(doubled, half + half, half)
    e = (exponent - doubled.to(exponent.dtype)).to(torch.float64)
    s = (m - 1) / (m + 1)
    return e * math.log(2) + (s + s) * polynomial(s * s, LOGARITHM)


def standard_normal(a, b):
    """Two tensors from two of 32-bit words (Box and Muller), as kernels/nn/start_values.cpp."""
    def fraction(words):
        return (words.to(torch.float64) + 0.5) * 2.0**-32

    length = torch.sqrt(-2 * logarithm(fraction(a)))
    quarters = 4 * fraction(b)
    nearest = torch.floor(quarters + 0.5)
    rest = (quarters - nearest) * (math.pi / 2)
    square = rest * rest
    sine, cosine = rest * polynomial(square, SINE), polynomial(square, COSINE)
    turned = nearest.to(torch.int64) % 4
    even = turned % 2 == 0
    x, y = torch.where(even, cosine, sine), torch.where(even, sine, cosine)
    return (length * torch.where((turned == 1) | (turned == 2), -x, x),
            length * torch.where(turned >= 2, -y, y))


def draw_normal(name, shape, deviation, seed):
    count = math.prod(shape)
    words = words_of(name, count, seed)
    pairs = [*standard_normal(words[:, 0], words[:, 1]), *standard_normal(words[:, 2], words[:, 3])]
    values = torch.stack(pairs, 1).reshape(-1)[:count] * deviation
    return values.to(torch.float32).reshape(shape)


def draw(name, shape, fan_in, seed):
    """Draws U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's default, from ddpbench's numbers."""
    count = math.prod(shape)
    words = words_of(name, count, seed)
    odd = (words.reshape(-1)[:count] >> 9) * 2 + 1 - (1 << 23)
    bound = torch.tensor(1.0 / math.sqrt(fan_in), dtype=torch.float64).to(torch.float32)
    return (odd.to(torch.float32) * 2.0**-23 * bound).reshape(shape)
