# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Synthetic images, the same bytes as ddpbench's (datasets/synthetic_images.cpp, which says what they
show). Needs NumPy; numbers of samples and their labels' stream are plain Python."""
import math
from typing import NamedTuple

from . import hashes, sampler
from .errors import UnavailableError

try:
    import numpy
except ImportError:
    numpy = None

TEST_SAMPLES_FROM = 1 << 32
CLASS_STREAM = 0x636C617373
FEWEST, MOST, MOST_BYTES = 256, 60000, 256 << 20
FEWEST_TEST_MAPS, MOST_TEST_LABELS = 8, 1 << 18
MEAN, DEVIATION = 0.5, 0.16
AMPLITUDE, MIDDLE, MOVE = 36, 48, 0.6
SIX_BITS = 0x3F3F3F3F3F3F3F3F
CHUNK_WORDS = 1 << 20  # so many random words are drawn at a time


class Maps(NamedTuple):
    """Of each sample's labels: rows, columns, and the ignored one (None: there is none)."""
    height: int
    width: int
    ignored: object


def check_numpy():
    if numpy is None:
        raise UnavailableError("synthetic images need NumPy here, which PyTorch's packages bring along "
                               "(Debian: python3-numpy)")


def counts(shape, labels=None):
    """Returns how many images there are to train and to test where the data set gives no numbers.
    `labels`: rows and columns of a map; None: one label."""
    of_labels = 2 * math.prod(labels) if labels else 2
    train = min(max(MOST_BYTES // max(math.prod(shape), of_labels), FEWEST), MOST)
    most = max(FEWEST_TEST_MAPS, MOST_TEST_LABELS // (math.prod(labels) if labels else 1))
    return train, min(max(1, train // 6), most)


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


def draw_labels(state, classes, taken):
    """Returns labels (SplitMix64.below), and adds how many words each took to `taken`."""
    labels = numpy.empty(len(state), numpy.int64)
    low_half, short = numpy.uint64(0xFFFFFFFF), (2**32 - classes) % classes
    open_ones = numpy.arange(len(state))
    while len(open_ones):
        random = words(state[open_ones], taken[open_ones])
        taken[open_ones] += numpy.uint64(1)
        product = (random >> numpy.uint64(32)) * numpy.uint64(classes)
        labels[open_ones] = (product >> numpy.uint64(32)).astype(numpy.int64)
        open_ones = open_ones[(product & low_half) < short]
    return labels


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


def words_of_row(width):
    return (width + 7) // 8


def words_of_channel(height, width):
    """Two for the moves of its waves, and the noise."""
    return 2 + height * words_of_row(width)


def draw_waves(state, taken, shape, waves, labels):
    """Images of these classes. `taken`: the words that each sample took before, which grow."""
    channels, height, width = shape
    cycles, phases = waves
    stride = words_of_channel(height, width)
    images = numpy.empty((len(labels), *shape), numpy.uint8)
    for channel in range(channels):
        numbers = taken[:, None] + numpy.arange(channel * stride, (channel + 1) * stride,
                                                dtype=numpy.uint64)
        random = words(state[:, None], numbers)
        moves = uniform(random[:, :2], -MOVE, MOVE)
        rows, columns = (wave(cycles[labels, channel, axis],
                              phases[labels, channel, axis] + moves[:, axis], extent)
                         for axis, extent in ((0, height), (1, width)))
        noise = (random[:, 2:] & numpy.uint64(SIX_BITS)).astype("<u8").view(numpy.uint8)
        noise = noise.reshape(len(labels), height, 8 * words_of_row(width))[:, :, :width]
        images[:, channel] = rows[:, :, None] + columns[:, None, :] + noise
    taken += numpy.uint64(channels * stride)
    return images


def draw_stretches(state, taken):
    """The two axes of each sample's rectangle, as begin and end, in shares of an axis."""
    stretches = []
    for _ in range(2):
        length = uniform(words(state, taken), 0.25, 0.75)
        begin = uniform(words(state, taken + numpy.uint64(1)), 0, 1 - length)
        taken += numpy.uint64(2)
        stretches.append((begin, begin + length))
    return stretches


def inside(stretch, extent):
    """Whether each element of an axis is in it: [sample, element]. The first and the last one that
    is, too."""
    begin, end = (numpy.ceil(share * extent - 0.5).astype(numpy.int64)[:, None] for share in stretch)
    places = numpy.arange(extent)
    return (places >= begin) & (places < end), (places == begin) | (places == end - 1)


def draw_maps(state, taken, shape, waves, maps):
    """Images with a rectangle of a second class, and their maps of labels."""
    outer, inner = (draw_labels(state, len(waves[0]), taken) for _ in range(2))
    down, across = draw_stretches(state, taken)
    images = draw_waves(state, taken, shape, waves, outer)
    second = draw_waves(state, taken, shape, waves, inner)
    rows, columns = inside(down, shape[1])[0], inside(across, shape[2])[0]
    images = numpy.where((rows[:, :, None] & columns[:, None, :])[:, None], second, images)
    (rows, row_edges), (columns, column_edges) = inside(down, maps.height), inside(across, maps.width)
    of_inner = rows[:, :, None] & columns[:, None, :]
    labels = numpy.where(of_inner, inner[:, None, None], outer[:, None, None])
    if maps.ignored is not None:
        labels[of_inner & (row_edges[:, :, None] | column_edges[:, None, :])] = maps.ignored
    return images, labels


def draw_some(seed, shape, waves, indices, maps):
    """Images and labels of some samples of the infinite sequence."""
    state, taken = states(seed, indices), numpy.zeros(len(indices), numpy.uint64)
    if maps is not None:
        return draw_maps(state, taken, shape, waves, maps)
    labels = draw_labels(state, len(waves[0]), taken)
    return draw_waves(state, taken, shape, waves, labels), labels


def draw(seed, shape, classes, first, count, maps=None):
    """Returns (images [count, channels, height, width], labels), as arrays. The labels are [count], or
    [count, rows, columns] with `maps`."""
    check_numpy()
    waves = waves_of_classes(seed, classes, shape[0])
    at_once = max(1, CHUNK_WORDS // words_of_channel(*shape[1:]))  # channels are drawn in turn
    images = numpy.empty((count, *shape), numpy.uint8)
    labels = numpy.empty((count, maps.height, maps.width) if maps else count, numpy.int32)
    for begin in range(0, count, at_once):
        end = min(begin + at_once, count)
        indices = numpy.arange(first + begin, first + end, dtype=numpy.uint64)
        images[begin:end], labels[begin:end] = draw_some(seed, shape, waves, indices, maps)
    return images, labels
