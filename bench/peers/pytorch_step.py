#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of a network with PyTorch on CPU, as ddpbench times its own.

A step lasts from asking for the batch to the end of the update; with several ranks it lasts as long as
its slowest rank. Prints one JSON line: the steps' times in seconds and the process's peak memory.
Networks other than simple_cnn are torchvision's, also those of torchvision.models.segmentation. Exits with 3 when PyTorch, or torchvision where it is
asked for, is not installed.
"""
import argparse
import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import statistics
import sys
import threading
import time

try:
    import torch
    import torch.distributed
    import torch.multiprocessing
    from torch import nn
except ImportError as error:
    print(f"PyTorch is not here: {error}", file=sys.stderr)
    sys.exit(3)


PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
STRATEGIES = ("ddp", "accumulation", "zero1", "hook-fp16", "localsgd")
PASSES = 4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="simple_cnn", help="or a name of torchvision.models")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="bf16 is autocast")
    parser.add_argument("--ranks", type=int, default=1, help="processes over Gloo")
    parser.add_argument("--strategy", choices=STRATEGIES, default="ddp",
                        help=f"of several ranks; accumulation of {PASSES} passes, which are a step; localsgd "
                             f"averages every {PASSES} steps, and tells their mean")
    parser.add_argument("--batch-size", type=int, default=256, help="per rank")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup-steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="per rank")
    parser.add_argument("--started-at", type=float, help="when this program was started, time.time()")
    parser.add_argument("--crop", type=int, default=513, help="the side of images of a segmentation network")
    parser.add_argument("--contiguous", action="store_true", help="NCHW in place of channels_last")
    return parser.parse_args()


def simple_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def network(name, crop):
    """The network, the shape of a sample, the number of classes and the shape of a sample's labels."""
    if name == "simple_cnn":
        return simple_cnn(), (1, 28, 28), 10, ()
    try:
        import torchvision
    except ImportError as error:
        print(f"torchvision is not here: {error}", file=sys.stderr)
        sys.exit(3)
    if hasattr(torchvision.models.segmentation, name):
        make = getattr(torchvision.models.segmentation, name)
        model = make(weights=None, weights_backbone=None, num_classes=21, aux_loss=True)
        return model, (3, crop, crop), 21, (crop, crop)
    return getattr(torchvision.models, name)(), (3, 224, 224), 1000, ()


def loss_of(outputs, labels):
    """As torchvision's references train a segmentation network: the auxiliary output counts half."""
    if not isinstance(outputs, dict):
        return nn.functional.cross_entropy(outputs, labels)
    of_map = [nn.functional.cross_entropy(outputs[key], labels, ignore_index=255) for key in ("out", "aux")]
    return of_map[0] + 0.5 * of_map[1]


def parallelize(arguments, model):
    """What a rank calls, its optimizer, and what follows the update."""
    name = arguments.strategy if arguments.ranks > 1 else ""
    make, settings = torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}
    if name == "localsgd":
        from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        averager = PeriodicModelAverager(period=PASSES, warmup_steps=0)
        return model, make(model.parameters(), **settings), lambda: averager.average_parameters(model.parameters())
    if name:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if name == "hook-fp16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        model.register_comm_hook(None, fp16_compress_hook)
    if name == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return model, ZeroRedundancyOptimizer(model.parameters(), make, **settings), lambda: None
    return model, make(model.parameters(), **settings), lambda: None


def train(arguments, rank):
    """Returns when the first step began (time.time()) and the times of the timed steps of this rank."""
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)  # a peer gets its best: denormal numbers would slow its loops
    layout = torch.contiguous_format if arguments.contiguous else torch.channels_last
    model, sample, classes, map_shape = network(arguments.network, arguments.crop)
    model = model.to(memory_format=layout).train()
    model, optimizer, after_update = parallelize(arguments, model)
    passes = PASSES if arguments.strategy == "accumulation" else 1
    batches = 60 if arguments.network == "simple_cnn" else 2  # large images would fill the memory
    samples = batches * arguments.batch_size
    generator = torch.Generator().manual_seed(rank)
    images = torch.randn(samples, *sample, generator=generator)
    labels = torch.randint(0, classes, (samples, *map_shape), generator=generator)
    times = []
    first_step_at = time.time()
    for step in range(arguments.warmup_steps + arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=not isinstance(model, nn.parallel.DistributedDataParallel))
        for k in range(passes):
            first = (step * passes + k) % batches * arguments.batch_size
            batch = images[first:first + arguments.batch_size].to(memory_format=layout)
            with model.no_sync() if k + 1 < passes else contextlib.nullcontext():
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
                    loss = loss_of(model(batch), labels[first:first + arguments.batch_size]) / passes
                loss.backward()
        optimizer.step()
        after_update()
        times.append(time.perf_counter() - begin)
    times = times[arguments.warmup_steps:]
    if arguments.strategy == "localsgd":
        times = [statistics.mean(times[first:first + PASSES]) for first in range(0, len(times), PASSES)]
    return first_step_at, times


def end_with_parent(parent):
    """A rank waits for its parent to kill it, so it must not outlive a parent that was killed itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the program that started this rank has ended")


def rank_main(rank, arguments, port, queue, parent):
    end_with_parent(parent)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(arguments.ranks))
    torch.distributed.init_process_group("gloo")
    queue.put(train(arguments, rank))
    # A rank that leaves closes connections that others read, and PyTorch's own farewell now and then
    # does not end. So all stay until they are killed.
    threading.Event().wait()


def end(ranks):
    for process in ranks:
        process.kill()
        process.join()


def result_of(queue, ranks):
    """What the next rank gives. Ends the program when one has failed, which leaves the others waiting."""
    while queue.empty():
        if any(process.exitcode for process in ranks):
            sys.exit("a rank failed")
        time.sleep(0.01)
    return queue.get()


def train_ranks(arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=rank_main, args=(rank, arguments, port, queue, os.getpid()), daemon=True)
             for rank in range(arguments.ranks)]
    started = []
    try:
        for process in ranks:
            process.start()
            started.append(process)
        first_steps, times = zip(*(result_of(queue, ranks) for _ in ranks))
    finally:
        end(started)
    return max(first_steps), [max(step) for step in zip(*times)]


def main():
    arguments = parse_arguments()
    first_step_at, times = train(arguments, 0) if arguments.ranks == 1 else train_ranks(arguments)
    start_s = first_step_at - arguments.started_at if arguments.started_at else None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"samples_s": times, "median_s": statistics.median(times), "start_s": start_s,
                      "torch": torch.__version__, "process_peak_rss_bytes": peak}))


if __name__ == "__main__":
    main()
