# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The training of one process: set up, warm up, start anew, train, evaluate."""
import contextlib
import datetime
import math
import time

import torch
from torch import distributed

from . import feed, figures, network, steps, weights

EVALUATED_PIXELS = 1000 * 28 * 28  # in the images of a batch
FOREVER_S = 365 * 24 * 3600


class Progress:
    """Tells the supervisor that this process goes on, and how far it is."""

    def __init__(self, memory, rank):
        self.words = memoryview(memory).cast("Q")[4 * rank:4 * rank + 4]

    def state(self, index):
        self.words[1] = index
        self.beat()

    def beat(self):
        self.words[0] += 1

    def step(self):
        self.words[2] += 1
        self.beat()


def numerics(spec):
    """Sets TF32 explicitly: PyTorch allows it in convolutions by default."""
    allowed = spec["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(spec["threads"])


def make_optimizer(parameters, spec):
    common = {"lr": spec["lr"], "weight_decay": spec["weight_decay"]}
    if spec["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, momentum=spec["momentum"], nesterov=spec["nesterov"],
                               **common)
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[spec["optimizer"]]
    return make(parameters, betas=(spec["beta1"], spec["beta2"]), eps=spec["epsilon"],
                capturable=spec["compile"] == "cuda-graphs", **common)


def make_scheduler(optimizer, spec):
    """Of a rate that changes with every step; None where it does not."""
    schedulers = torch.optim.lr_scheduler
    warmup = spec["lr_warmup_steps"]
    if spec["lr_schedule"] == "step":
        main = schedulers.StepLR(optimizer, spec["lr_step_size"], spec["lr_gamma"])
    elif spec["lr_schedule"] == "cosine":
        main = schedulers.CosineAnnealingLR(optimizer, spec["lr_cosine_steps"], spec["lr_min"])
    elif warmup > 0:
        main = schedulers.LambdaLR(optimizer, lambda _: 1.0)
    else:
        return None
    if warmup == 0:
        return main
    ramp = schedulers.LinearLR(optimizer, spec["lr_warmup_factor"], 1.0, warmup)
    return schedulers.SequentialLR(optimizer, [ramp, main], [warmup])


class Trainer:
    def __init__(self, spec, rank, progress):
        self.spec, self.rank, self.progress = spec, rank, progress
        numerics(spec)
        cuda = spec["device"] == "cuda"
        self.device = torch.device("cuda", rank) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        self.stream = torch.cuda.Stream() if spec["compile"] == "cuda-graphs" else None
        self.net = network.load(spec["model"])
        if spec["load_model"]:
            self.initial, origin = weights.read(spec["load_model"]), spec["load_model"]
        else:
            self.initial = network.initial_weights(self.net, spec["seed"])
            origin = "the initialiser"
        network.set_weights(self.net, self.initial, origin)
        self.net.to(self.device, memory_format=torch.channels_last)
        self.join()
        self.load_data()
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        with self.on_stream():
            self.wrap()
        self.clock = steps.DeviceClock(spec["pace"]) if cuda else steps.HostClock()
        self.step = self.make_step()
        self.begin_schedule()
        self.epochs = []
        # The replicas whose memory this process can tell.
        self.replicas = [] if not cuda else list(range(spec["world_size"])) \
            if spec["strategy"] == "dp" else [rank]
        self.peaks = [0] * len(self.replicas)

    def on_stream(self):
        return torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext()

    def join(self):
        if self.spec["strategy"] != "ddp":
            return
        # The launcher has the same limit and knows which rank it waits for, so it reports first.
        limit = datetime.timedelta(seconds=(self.spec["timeout"] or FOREVER_S) + 10)
        distributed.init_process_group(
            self.spec["backend"], init_method="file://" + self.spec["store"], rank=self.rank,
            world_size=self.spec["processes"], timeout=limit)

    def wrap(self):
        """The optimizer steps parameters that all wrappers share."""
        spec, model = self.spec, self.net
        if spec["strategy"] == "ddp":
            model = torch.nn.parallel.DistributedDataParallel(
                model, device_ids=[self.rank] if self.device.type == "cuda" else None,
                bucket_cap_mb=spec["bucket_cap_mb"], gradient_as_bucket_view=True,
                broadcast_buffers=spec["broadcast_buffers"])
        elif spec["strategy"] == "dp":
            model = torch.nn.DataParallel(model, device_ids=list(range(spec["world_size"])))
        self.model = torch.compile(model) if spec["compile"] == "inductor" else model
        self.optimizer = make_optimizer(self.net.parameters(), spec)

    def load_data(self):
        train = feed.Samples(self.spec, "train")
        self.feed = feed.make_feed(train, self.spec, self.rank, self.device)
        self.test = feed.Samples(self.spec, "test")
        if self.spec["residency"] == "device":
            self.test.to(self.device)

    def make_step(self):
        # DDP's gradients are views of its buckets: setting them to None would lose them.
        step = steps.EagerStep(self.model, self.net.loss_of, self.optimizer, self.feed,
                               self.spec["precision"],
                               keep_gradients=self.spec["strategy"] == "ddp")
        if self.stream:
            self.feed.begin(0, steps.STEPS_BEFORE_CAPTURE + 1)
            return steps.GraphStep(step, self.stream)
        if self.spec["compile"] != "none":  # compiled by its first step, which is no warm-up
            self.feed.begin(0, 1)
            step(steps.NoClock())
        return step

    def barrier(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        if self.spec["strategy"] == "ddp":
            distributed.barrier()

    def start_anew(self):
        """Resets weights and optimizer to step 0, in place."""
        network.set_weights(self.net, self.initial, "step 0")
        for state in self.optimizer.state.values():
            for value in state.values():
                if torch.is_tensor(value):
                    value.zero_()
        self.begin_schedule()

    def begin_schedule(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.spec["lr"]
            group.pop("initial_lr", None)
        self.scheduler = make_scheduler(self.optimizer, self.spec)

    def take_step(self, clock):
        """A scheduler is stepped after the update, outside of the step's time."""
        result = self.step(clock)
        if self.scheduler is not None:
            self.scheduler.step()
        return result

    def warm_up(self):
        count = self.spec["warmup_steps"]
        self.barrier()
        begin = time.monotonic()
        self.feed.begin(0, count)
        for _ in range(count):
            self.take_step(steps.NoClock())
            self.progress.step()
        self.barrier()
        self.start_anew()
        return time.monotonic() - begin

    def train_epoch(self, epoch):
        """Counts loss and hits between the steps, outside their times."""
        count = self.spec["steps_per_epoch"]
        self.feed.begin(epoch, count)
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        correct = torch.zeros((), dtype=torch.int64, device=self.device)
        counted = torch.zeros((), dtype=torch.int64, device=self.device)
        batch = self.spec["global_batch"] // self.spec["processes"]
        self.barrier()
        begin = time.monotonic()
        for _ in range(count):
            loss, logits, labels = self.take_step(self.clock)
            valid, hits = self.net.hits(logits, labels)
            loss_sum += torch.where(valid > 0, loss * valid, 0)
            counted += valid
            correct += hits
            self.progress.step()
        self.clock.finish_epoch()
        end = time.monotonic()
        self.feed.close()
        self.note_peaks()
        self.epochs.append({"epoch": epoch, "begin": begin, "end": end, "samples": count * batch,
                            "loss_sum": loss_sum.item(), "correct": correct.item(),
                            "counted": counted.item()})

    def evaluate(self):
        """Evaluates this process's share of the test samples with the plain network."""
        begin, correct, counted = time.monotonic(), 0, 0
        mine = torch.arange(self.rank, len(self.test), self.spec["processes"],
                            device=self.test.labels.device)
        batch = max(1, EVALUATED_PIXELS // math.prod(self.test.shape))
        self.net.eval()
        with torch.no_grad():
            for indices in mine.split(batch):
                images, labels = (part.to(self.device)
                                  for part in self.test.gather(indices[:, None]))
                valid, hits = self.net.hits(self.net(images), labels)
                counted += valid.item()
                correct += hits.item()
                self.progress.beat()
        self.net.train()
        for replica in self.replicas:
            torch.cuda.reset_peak_memory_stats(replica)
        self.epochs[-1].update(test_counted=counted, test_correct=correct)
        return time.monotonic() - begin

    def has_reached(self, target):
        """Says whether the last epoch reached this accuracy over the whole test set, on all ranks
        alike."""
        last = self.epochs[-1]
        counts = torch.tensor([last["test_correct"], last["test_counted"]], device=self.device)
        if self.spec["strategy"] == "ddp":
            distributed.all_reduce(counts)
        correct, counted = counts.tolist()
        return counted > 0 and figures.reaches(correct / counted, target)

    def note_peaks(self):
        """Notes the peaks of the training alone: evaluation takes larger batches."""
        self.peaks = [max(peak, torch.cuda.max_memory_allocated(replica))
                      for peak, replica in zip(self.peaks, self.replicas)]

    def save(self):
        if self.spec["save_model"] and self.rank == 0:
            weights.write(self.spec["save_model"], network.tensors(self.net))
