# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The samples that a rank sees, exactly as ddpbench's ShardedSampler (datasets/sharded_sampler.h)."""

MASK = (1 << 64) - 1
INCREMENT = 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class SplitMix64:
    """The generator of base/random.h: one stream for each (seed, stream)."""

    def __init__(self, seed, stream):
        second = mix((stream + 2 * INCREMENT) & MASK)
        self.state = mix((seed + INCREMENT) & MASK) ^ mix(second)

    def next(self):
        self.state = (self.state + INCREMENT) & MASK
        return mix(self.state)

    def below(self, bound):
        """Draws uniformly from [0, bound): Lemire's multiplication, which rejects few products."""
        product = (self.next() >> 32) * bound
        if product & 0xFFFFFFFF < bound:
            short_interval = (2**32 - bound) % bound
            while product & 0xFFFFFFFF < short_interval:
                product = (self.next() >> 32) * bound
        return product >> 32


def permutation(samples, seed, epoch):
    """Returns the epoch's order of all samples: Fisher and Yates' shuffle of the identity."""
    order = list(range(samples))
    random = SplitMix64(seed, epoch)
    for left in range(samples, 1, -1):
        other = random.below(left)
        order[left - 1], order[other] = order[other], order[left - 1]
    return order


def steps_per_epoch(samples, global_batch, last_batch):
    whole = samples // global_batch
    return whole + 1 if last_batch == "pad" and samples % global_batch else whole


def shard_places(global_batch, shards, shard, steps):
    """Returns a list of places in the epoch's global order per step: every `shards`-th. They go on
    beyond the end of the data set, where samples wrap around."""
    return [range(step * global_batch + shard, (step + 1) * global_batch, shards)
            for step in range(steps)]
