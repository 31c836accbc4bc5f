# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Batches: which samples, where they are gathered, and what is copied to the device.

A step takes `raw` tensors (`take`), moves them (`to_device`) and makes images and labels of them
(`prepare`). The work of `prepare` is the device's and can be part of a CUDA graph.
"""
import queue
import threading

import torch

from . import idx, sampler


class Samples:
    """One part of a data set, decoded: bytes of images, labels, and the scale of the bytes."""

    def __init__(self, images_path, labels_path, mean, std):
        (count, *self.size), images, labels = idx.read_split(images_path, labels_path)
        self.images = torch.frombuffer(bytearray(images), dtype=torch.uint8).reshape(count, -1)
        self.labels = torch.frombuffer(bytearray(labels), dtype=torch.uint8).to(torch.int64)
        # Pixels are byte * scale + offset in two roundings, as in ddpbench's BatchAssembler.
        self.scale = float(torch.tensor(1 / (255 * std), dtype=torch.float64).to(torch.float32))
        self.offset = float(torch.tensor(-mean / std, dtype=torch.float64).to(torch.float32))

    def __len__(self):
        return len(self.labels)

    def to(self, device):
        self.images, self.labels = self.images.to(device), self.labels.to(device)
        return self

    def gather(self, indices):
        images = self.images.index_select(0, indices).to(torch.float32)
        images.mul_(self.scale).add_(self.offset)
        images = images.reshape(-1, 1, *self.size).contiguous(memory_format=torch.channels_last)
        return images, self.labels.index_select(0, indices)


class Feed:
    """The order of the batches; subclasses say where they are made."""

    def __init__(self, samples, spec, rank, device):
        self.samples = samples
        self.spec = spec
        self.rank = rank
        self.device = device

    def batches(self, epoch, steps):
        """Returns the indices of this process's samples, [steps, batch]."""
        order = sampler.permutation(len(self.samples), self.spec["seed"], epoch)
        return torch.tensor(sampler.shard_batches(order, self.spec["global_batch"],
                                                  self.spec["processes"], self.rank, steps))

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

    def prepare(self, indices):
        return self.samples.gather(indices)


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

    def make(self, indices):
        images, labels = self.samples.gather(indices)
        return (images.pin_memory(), labels.pin_memory()) if self.pinned else (images, labels)

    def work(self, order):
        for indices in order:
            batch = self.make(indices)
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
