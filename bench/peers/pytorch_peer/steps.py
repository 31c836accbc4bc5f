# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""One training step, eager or as a CUDA graph, and the clocks that time it."""
import contextlib
import time

import torch

from .network import main_output

# PyTorch asks for this many eager steps of DistributedDataParallel before a capture.
STEPS_BEFORE_CAPTURE = 11


class HostClock:
    """For CPU devices: an operation has ended when its call returns."""

    def __init__(self):
        self.steps, self.phases = [], {}

    def begin(self):
        self.current = {}
        self.last = self.first = time.perf_counter()

    def mark(self, phase):
        """Counts the time since the last mark for `phase`."""
        now = time.perf_counter()
        self.current[phase] = self.current.get(phase, 0.0) + now - self.last
        self.last = now

    def end(self):
        self.steps.append(time.perf_counter() - self.first)
        for phase, seconds in self.current.items():
            self.phases.setdefault(phase, []).append(seconds)

    def finish_epoch(self):
        pass


class DeviceClock:
    """For CUDA devices: events on the stream, from asking for the batch to the update's end."""

    def __init__(self, pace):
        self.steps, self.phases, self.pairs = [], {}, []
        self.wait_for_each = pace == "step"

    def begin(self):
        self.first = time.perf_counter()
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.events[0].record()

    def mark(self, phase):
        """Marks only the host's wait for data: other phases would need events within the step."""
        if phase == "data_wait_s":
            self.phases.setdefault(phase, []).append(time.perf_counter() - self.first)

    def end(self):
        self.events[1].record()
        self.pairs.append(self.events)
        if self.wait_for_each:
            self.events[1].synchronize()

    def finish_epoch(self):
        torch.cuda.synchronize()
        self.steps += [begin.elapsed_time(end) * 1e-3 for begin, end in self.pairs]
        self.pairs = []


class NoClock:
    """The clock of untimed steps."""

    def begin(self):
        pass

    def mark(self, phase):
        pass

    def end(self):
        pass


class EagerStep:
    """A step as a PyTorch user writes it. Returns loss, logits and labels, still on the device."""

    def __init__(self, model, loss_of, optimizer, feed, precision, keep_gradients):
        self.model, self.loss_of, self.optimizer, self.feed = model, loss_of, optimizer, feed
        self.keep_gradients = keep_gradients
        self.cache_casts = True
        self.autocast = precision == "bf16"

    def casting(self):
        if not self.autocast:
            return contextlib.nullcontext()
        return torch.autocast(self.feed.device.type, torch.bfloat16,
                              cache_enabled=self.cache_casts)

    def compute(self, raw, clock):
        images, labels = self.feed.prepare(*raw)
        clock.mark("data_wait_s")
        self.optimizer.zero_grad(set_to_none=not self.keep_gradients)
        clock.mark("optimizer_s")
        with self.casting():
            outputs = self.model(images)
            clock.mark("forward_s")
            loss = self.loss_of(outputs, labels)
        clock.mark("loss_s")
        loss.backward()
        clock.mark("backward_s")
        self.optimizer.step()
        clock.mark("optimizer_s")
        return loss.detach(), main_output(outputs).detach(), labels

    def __call__(self, clock):
        clock.begin()
        result = self.compute(self.feed.to_device(self.feed.take()), clock)
        clock.end()
        return result


class GraphStep:
    """The same step as one CUDA graph, from the batch on the device to the update."""

    def __init__(self, eager, stream):
        self.feed = eager.feed
        eager.cache_casts = False
        with torch.cuda.stream(stream):
            for _ in range(STEPS_BEFORE_CAPTURE):
                eager(NoClock())
            self.static = tuple(tensor.clone() for tensor in self.feed.to_device(self.feed.take()))
            eager.optimizer.zero_grad(set_to_none=not eager.keep_gradients)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.result = eager.compute(self.static, NoClock())
        torch.cuda.synchronize()

    def __call__(self, clock):
        clock.begin()
        raw = self.feed.take()
        clock.mark("data_wait_s")
        for static, tensor in zip(self.static, raw):
            static.copy_(tensor, non_blocking=True)
        self.graph.replay()
        clock.end()
        return self.result
