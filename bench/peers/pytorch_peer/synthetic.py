# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Synthetic images, the same bytes as ddpbench's (datasets/synthetic_images.cpp, which says what they
show). Needs NumPy; numbers of samples and their labels' stream are plain Python."""
import math

from . import hashes, sampler
from .errors import UnavailableError

try:
    import numpy
except ImportError:
    numpy = None

TEST_SAMPLES_FROM = 1 << 32
CLASS_STREAM = 0x636C617373
FEWEST, MOST, MOST_BYTES = 256, 60000, 256 << 20
MEAN, DEVIATION = 0.5, 0.16
AMPLITUDE, MIDDLE, MOVE = 36, 48, 0.6
SIX_BITS = 0x3F3F3F3F3F3F3F3F
CHUNK_WORDS = 1 << 20  # so many random words are drawn at a time


def check_numpy():
    if numpy is None:
        raise UnavailableError("synthetic images need NumPy here, which PyTorch's packages bring along "
                               "(Debian: python3-numpy)")


def counts(shape):
    """Returns how many images there are to train and to test where the data set gives no numbers."""
    train = min(max(MOST_BYTES // math.prod(shape), FEWEST), MOST)
    return train, max(1, train // 6)


def mix(values):
    values = (values ^ (values >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return values ^ (values >> numpy.uint64(31))


def states(seed, streams):
    """Of SplitMix64's independent streams."""
    second = mix(mix(streams + numpy.uint64(2 * sampler.INCREMENT & sampler.MASK)))
    return numpy.uint64(sampler.mix((seed + sampler.INCREMENT) & sampler.MASK)) ^ second


def words(state, numbers):
    """The random words of these numbers, from 0 on. Products wrap around."""
    return mix(state + (numbers + numpy.uint64(1)) * numpy.uint64(sampler.INCREMENT))


def uniform(random, low, high):
    return low + (high - low) * ((random >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53)


def draw_labels(state, classes):
    """Returns the labels, and how many words each took (SplitMix64.below)."""
    labels, taken = numpy.empty(len(state), numpy.int64), numpy.zeros(len(state), numpy.uint64)
    low_half, short = numpy.uint64(0xFFFFFFFF), (2**32 - classes) % classes
    open_ones = numpy.arange(len(state))
    while len(open_ones):
        random = words(state[open_ones], taken[open_ones])
        taken[open_ones] += numpy.uint64(1)
        product = (random >> numpy.uint64(32)) * numpy.uint64(classes)
        labels[open_ones] = (product >> numpy.uint64(32)).astype(numpy.int64)
        open_ones = open_ones[(product & low_half) < short]
    return labels, taken


def waves_of_classes(seed, classes, channels):
    """Cycles and phases, [classes, channels, rows and columns]."""
    of_class = states(hashes.combine_hash(seed, CLASS_STREAM), numpy.arange(classes, dtype=numpy.uint64))
    numbers = numpy.arange(4 * channels, dtype=numpy.uint64)
    random = words(of_class[:, None], numbers).reshape(classes, channels, 2, 2)
    return uniform(random[..., 0], 0.5, 3.5), uniform(random[..., 1], 0, 2 * math.pi)


def wave(cycles, phase, extent):
    step = 2 * math.pi * cycles / extent
    values = MIDDLE + AMPLITUDE * numpy.sin(phase[:, None] + step[:, None] * numpy.arange(extent))
    return numpy.floor(values + 0.5).astype(numpy.uint8)


def draw_some(seed, shape, waves, indices):
    """Images and labels of some samples of the infinite sequence."""
    channels, height, width = shape
    cycles, phases = waves
    state = states(seed, indices)
    labels, taken = draw_labels(state, len(cycles))
    in_row = (width + 7) // 8
    stride = 2 + height * in_row
    images = numpy.empty((len(indices), *shape), numpy.uint8)
    for channel in range(channels):
        numbers = taken[:, None] + numpy.arange(channel * stride, (channel + 1) * stride,
                                                dtype=numpy.uint64)
        random = words(state[:, None], numbers)
        moves = uniform(random[:, :2], -MOVE, MOVE)
        rows, columns = (wave(cycles[labels, channel, axis],
                              phases[labels, channel, axis] + moves[:, axis], extent)
                         for axis, extent in ((0, height), (1, width)))
        noise = (random[:, 2:] & numpy.uint64(SIX_BITS)).astype("<u8").view(numpy.uint8)
        noise = noise.reshape(len(indices), height, 8 * in_row)[:, :, :width]
        images[:, channel] = rows[:, :, None] + columns[:, None, :] + noise
    return images, labels


def draw(seed, shape, classes, first, count):
    """Returns (images [count, channels, height, width], labels), as arrays."""
    check_numpy()
    waves = waves_of_classes(seed, classes, shape[0])
    a_sample = 2 + shape[1] * ((shape[2] + 7) // 8)
    at_once = max(1, CHUNK_WORDS // a_sample)
    images, labels = numpy.empty((count, *shape), numpy.uint8), numpy.empty(count, numpy.int64)
    for begin in range(0, count, at_once):
        end = min(begin + at_once, count)
        indices = numpy.arange(first + begin, first + end, dtype=numpy.uint64)
        images[begin:end], labels[begin:end] = draw_some(seed, shape, waves, indices)
    return images, labels
