# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The hashes of base/random.h."""
from . import sampler


def combine_hash(value, other):
    return sampler.mix((value * 0x9E3779B97F4A7C15 + other + 0x2545F4914F6CDD1D) & sampler.MASK)


def hash_bytes(data, seed=0):
    value = combine_hash(seed, len(data))
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        value = combine_hash(value, int.from_bytes(data[at:at + 8], "little"))
    return combine_hash(value, int.from_bytes(data[whole:], "little"))


def hash_integers(value, integers):
    """Negative ones as their two's complement."""
    value = combine_hash(value, len(integers))
    for integer in integers:
        value = combine_hash(value, integer & sampler.MASK)
    return value
