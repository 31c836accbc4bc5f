# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Batches: which samples, where they are gathered, and what is copied to the device.

A step takes `raw` tensors (`take`), moves them (`to_device`) and makes images and labels of them
(`prepare`). The work of `prepare` is the device's and can be part of a CUDA graph.
"""
import queue
import threading

import torch
from torch.nn import functional

from . import augmentation, catalog, sampler


class Samples:
    """One part of a data set, decoded: bytes of images, labels, and the scale of the bytes."""

    def __init__(self, spec, part):
        images, labels = catalog.read(spec["data"], part)
        self.shape = spec["data"]["shape"]
        self.images = torch.frombuffer(bytearray(images), dtype=torch.uint8).reshape(len(labels), -1)
        self.labels = torch.as_tensor(labels, dtype=torch.int32)  # maps are long
        # Pixels are byte * scale + offset in two roundings, as in ddpbench's BatchAssembler.
        mean, std = (torch.tensor(spec[key], dtype=torch.float64).expand(self.shape[0])
                     for key in ("mean", "std"))
        self.scale, self.offset = (each.to(torch.float32).reshape(-1, 1, 1)
                                   for each in (1 / (255 * std), -mean / std))

    def __len__(self):
        return len(self.labels)

    def to(self, device):
        self.images, self.labels = self.images.to(device), self.labels.to(device)
        self.scale, self.offset = self.scale.to(device), self.offset.to(device)
        return self

    def gather(self, rows):
        """`rows`: [batch, 1], indices; or [batch, 4] with the changes of augmentation.draw."""
        indices = rows[:, 0]
        images = self.images.index_select(0, indices).reshape(-1, *self.shape)
        if rows.shape[1] > 1:
            images = changed(images, *rows[:, 1:].unbind(1))
        images = images.to(torch.float32).mul_(self.scale).add_(self.offset)
        return (images.contiguous(memory_format=torch.channels_last),
                self.labels.index_select(0, indices).to(torch.int64))


def changed(images, down, right, flip):
    """Bytes of images, cropped and flipped; what lies outside of an image is black."""
    count, channels, height, width = images.shape
    padded = functional.pad(images, [augmentation.PADDING] * 4)

    def places(extent):
        return torch.arange(extent, device=images.device)

    rows = places(height) + (down + augmentation.PADDING)[:, None]
    across = places(width)
    across = torch.where(flip[:, None] == 1, across.flip(0), across)
    columns = across + (right + augmentation.PADDING)[:, None]
    return padded[places(count)[:, None, None, None], places(channels)[None, :, None, None],
                  rows[:, None, :, None], columns[:, None, None, :]]


class Feed:
    """The order of the batches; subclasses say where they are made."""

    def __init__(self, samples, spec, rank, device):
        self.samples = samples
        self.spec = spec
        self.rank = rank
        self.device = device

    def batches(self, epoch, steps):
        """Returns a row for each of this process's samples, [steps, batch, row]; see gather."""
        spec, seed = self.spec, self.spec["seed"]
        order = sampler.permutation(len(self.samples), seed, epoch)
        places = sampler.shard_places(spec["global_batch"], spec["processes"], self.rank, steps)
        samples = [[order[place % len(order)] for place in step] for step in places]
        return torch.tensor([[(sample,
                               *(augmentation.draw(seed, epoch, sample) if spec["augment"] else ()))
                              for sample in step] for step in samples])

    def close(self):
        pass


class DeviceFeed(Feed):
    """--residency=device: the samples are on the device, and a step names its own."""

    def __init__(self, samples, spec, rank, device):
        super().__init__(samples.to(device), spec, rank, device)
        self.order, self.step = None, 0

    def begin(self, epoch, steps):
        self.order, self.step = self.batches(epoch, steps).to(self.device), 0

    def take(self):
        self.step += 1
        return (self.order[self.step - 1],)

    def to_device(self, raw):
        return raw

    def prepare(self, rows):
        return self.samples.gather(rows)


class HostFeed(Feed):
    """--residency=host: a thread ahead of the training one makes batches on the host."""

    AHEAD = 2

    def __init__(self, samples, spec, rank, device):
        super().__init__(samples, spec, rank, device)
        self.pinned = device.type == "cuda"
        self.threaded = spec["loader_workers"] > 0
        self.queue = self.thread = self.order = None
        self.stopped = threading.Event()

    def begin(self, epoch, steps):
        self.close()
        self.order = iter(self.batches(epoch, steps))
        if self.threaded:
            self.stopped.clear()
            self.queue = queue.Queue(self.AHEAD)
            self.thread = threading.Thread(target=self.work, args=(self.order,), daemon=True)
            self.thread.start()

    def make(self, rows):
        images, labels = self.samples.gather(rows)
        return (images.pin_memory(), labels.pin_memory()) if self.pinned else (images, labels)

    def work(self, order):
        for rows in order:
            batch = self.make(rows)
            while not self.stopped.is_set():
                try:
                    self.queue.put(batch, timeout=0.1)
                    break
                except queue.Full:
                    pass
            if self.stopped.is_set():
                return

    def take(self):
        if not self.threaded:
            return self.make(next(self.order))
        while True:
            try:
                return self.queue.get(timeout=1)
            except queue.Empty:
                if not self.thread.is_alive():
                    raise RuntimeError("the thread that makes batches has ended") from None

    def to_device(self, raw):
        if not self.pinned:
            return raw
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in raw)

    def prepare(self, images, labels):
        return images, labels

    def close(self):
        if self.thread is not None:
            self.stopped.set()
            self.thread.join()
            self.thread = None


def make_feed(samples, spec, rank, device):
    kind = DeviceFeed if spec["residency"] == "device" else HostFeed
    return kind(samples, spec, rank, device)
