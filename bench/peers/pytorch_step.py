#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of SimpleCNN with PyTorch on CPU, as ddpbench times its own.

A step lasts from asking for the batch to the end of the update; with several ranks it lasts as long as
its slowest rank. Prints one JSON line: the steps' times in seconds and the process's peak memory.
Exits with 3 when PyTorch is not installed.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import sys
import time

try:
    import torch
    import torch.distributed
    import torch.multiprocessing
    from torch import nn
except ImportError as error:
    print(f"PyTorch is not here: {error}", file=sys.stderr)
    sys.exit(3)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1, help="processes of DistributedDataParallel")
    parser.add_argument("--batch-size", type=int, default=256, help="per rank")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup-steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1, help="per rank")
    parser.add_argument("--started-at", type=float, help="when this program was started, time.time()")
    parser.add_argument("--contiguous", action="store_true", help="NCHW in place of channels_last")
    return parser.parse_args()


def simple_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def train(arguments, rank):
    """Returns when the first step began (time.time()) and the times of the timed steps of this rank."""
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)  # a peer gets its best: denormal numbers would slow its loops
    layout = torch.contiguous_format if arguments.contiguous else torch.channels_last
    model = simple_cnn().to(memory_format=layout)
    if arguments.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    samples = 60 * arguments.batch_size
    generator = torch.Generator().manual_seed(rank)
    images = torch.randn(samples, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    times = []
    first_step_at = time.time()
    for step in range(arguments.warmup_steps + arguments.steps):
        first = step % 60 * arguments.batch_size
        begin = time.perf_counter()
        batch = images[first:first + arguments.batch_size].to(memory_format=layout)
        optimizer.zero_grad(set_to_none=arguments.ranks == 1)
        loss = loss_function(model(batch), labels[first:first + arguments.batch_size])
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return first_step_at, times[arguments.warmup_steps:]


def rank_main(rank, arguments, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(arguments.ranks))
    torch.distributed.init_process_group("gloo")
    queue.put(train(arguments, rank))
    torch.distributed.destroy_process_group()


def train_ranks(arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=rank_main, args=(rank, arguments, port, queue))
             for rank in range(arguments.ranks)]
    for process in ranks:
        process.start()
    first_steps, times = zip(*(queue.get() for _ in ranks))
    for process in ranks:
        process.join()
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
