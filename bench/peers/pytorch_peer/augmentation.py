# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Random crops and flips, as ddpbench draws them (datasets/batch_assembler.h)."""
from . import hashes, sampler

PADDING = 4


def draw(seed, epoch, sample):
    """Returns (down, right, flip) of the sample with this index in the training set."""
    random = sampler.SplitMix64(hashes.combine_hash(seed, epoch), sample)
    down, right = (random.below(2 * PADDING + 1) - PADDING for _ in range(2))
    return down, right, random.below(2)
