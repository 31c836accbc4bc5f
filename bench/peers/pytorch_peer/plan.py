# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Plans the runs of a command, and what a run's processes are told."""
import os
import random

from . import catalog, environment, options as option_table, sampler
from .errors import UnavailableError, UsageError

NO_DP_ON_CPU = ("torch.nn.DataParallel needs GPUs: without them it runs the plain module on one "
                "device")
NO_DP_COMPILED = ("torch.nn.DataParallel copies the module anew for every step, which neither "
                  "torch.compile nor a CUDA graph can hold")
NO_PS = "PyTorch has no parameter server to compare with"


def check_device(options, found):
    """Returns the kind of device; UnavailableError for one that is not here."""
    device = options["device"]
    if device == "auto":
        device = "cuda" if found["devices"] else "cpu"
    if device == "cuda" and not found["devices"]:
        raise UnavailableError("--device=cuda: PyTorch finds no CUDA device")
    if device == "cpu":
        for name, value in (("compile", "cuda-graphs"), ("precision", "tf32"),
                            ("residency", "device")):
            if options[name] == value:
                raise UnavailableError(f"--{name}={value} needs a GPU; the device is cpu")
    if options["compile"] == "inductor" and not found["compile"]:
        raise UnavailableError("--compile=inductor: PyTorch "
                               f"{found['libraries']['torch']} has no torch.compile")
    library = "gloo" if device == "cpu" else "nccl"
    if "ddp" in options["strategy"] and not found[library]:
        raise UnavailableError(f"--strategy=ddp on {device}: this PyTorch has no {library}")
    return device


def device_counts(options, device, found):
    cores = len(environment.cores())
    available = len(found["devices"]) if device == "cuda" else cores // options["threads_per_device"]
    if options["gpus"] == "all":
        return list(range(1, max(available, 1) + 1))[-1:]
    parallel = [word for word in options["strategy"] if word in ("dp", "ddp")]
    most = max(options["gpus"]) if parallel else 1
    if device == "cuda" and most > available:
        raise UnavailableError(f"--gpus={most}: there {'is' if available == 1 else 'are'} {available}")
    return options["gpus"]


def dataset(options, network):
    """Returns what is known of the data set (catalog.locate), which fits the network."""
    model_path = option_table.model_path(options["model"])
    catalog.settle(options, network)
    directory = option_table.data_directory(options["data_dir"], os.environ)
    data = catalog.locate(options, network, os.path.abspath(directory))
    catalog.check_fits(data, network, model_path)
    catalog.check_augmentation(options, data)
    catalog.check_normalization(options, data)
    return data


def batches(options, world_size):
    """Returns (per-device batch, global batch)."""
    whole = options["global_batch_size"]
    if whole is None:
        return options["batch_size"], options["batch_size"] * world_size
    if whole % world_size:
        raise UsageError(f"--global-batch-size={whole} does not divide by {world_size} devices")
    return whole // world_size, whole


def skip_reason(strategy, device, options):
    if strategy == "ps":
        return NO_PS
    if strategy not in ("single", "dp", "ddp"):
        return f"PyTorch has nothing to compare {strategy} with"
    if strategy == "dp" and device == "cpu":
        return NO_DP_ON_CPU
    if strategy == "dp" and options["compile"] != "none":
        return NO_DP_COMPILED
    return None


def backend_of(strategy, device):
    if strategy == "single":
        return "none"
    if device == "cpu":
        return "gloo" if strategy == "ddp" else None
    return "nccl" if strategy in ("dp", "ddp") else None


def placement(strategy, world_size, device, threads):
    """Returns (processors of every rank, oversubscribed). Threads get cores as in ddpbench."""
    cores = environment.cores()
    wanted = world_size * threads
    if device == "cuda" or strategy == "ps":
        return [], False
    if wanted > len(cores):
        return [], True
    return [cores[rank * threads:(rank + 1) * threads] for rank in range(world_size)], False


def cell(strategy, world_size, device, options, data, network):
    """Returns all that is known of a run before it is made; `spec` is for its processes."""
    per_device, whole = batches(options, world_size)
    steps = sampler.steps_per_epoch(data["train_samples"], whole, options["last_batch"])
    if steps == 0:
        raise UsageError(f"a global batch of {whole} out of {data['train_samples']} samples leaves no "
                         "step with --last-batch=drop")
    cores, oversubscribed = placement(strategy, world_size, device, options["threads_per_device"])
    scale = world_size if options["lr_scaling"] == "linear" else 1
    path_of = {name: os.path.abspath(options[name]) if options[name] else None
               for name in ("load_model", "save_model")}
    spec = {"strategy": strategy, "world_size": world_size, "device": device,
            "processes": world_size if strategy == "ddp" else 1, "cores": cores,
            "backend": backend_of(strategy, device), "threads": options["threads_per_device"],
            "model": os.path.abspath(option_table.model_path(options["model"])),
            "data": data, "mean": options["dataset/mean"], "std": options["dataset/std"],
            "augment": options["dataset/augment"],
            "global_batch": whole, "lr": options["lr"] * scale,
            "steps_per_epoch": min(steps, options["steps"] or steps), **path_of}
    for name in ("precision", "compile", "residency", "pace", "seed", "epochs", "until_accuracy",
                 "warmup_steps", "optimizer", "momentum", "nesterov", "beta1", "beta2", "epsilon",
                 "weight_decay", *option_table.SCHEDULE_OPTIONS,
                 "bucket_cap_mb", "broadcast_buffers", "loader_workers", "timeout"):
        spec[name] = options[name]
    if spec["lr_cosine_steps"] is None:
        training = spec["epochs"] * spec["steps_per_epoch"]
        spec["lr_cosine_steps"] = max(1, training - spec["lr_warmup_steps"])
    return {"spec": spec, "per_device_batch": per_device, "oversubscribed": oversubscribed,
            "network": network, "skipped": skip_reason(strategy, device, options)}


def cells(options, device, found, network, data):
    """Returns the cells. single runs once for any --gpus."""
    counts = device_counts(options, device, found)
    planned = [cell(strategy, world_size, device, options, data, network)
               for strategy in options["strategy"]
               for world_size in ([1] if strategy == "single" else counts)]
    made = sum(entry["skipped"] is None for entry in planned) * options["repetitions"]
    if options["save_model"] and made > 1:
        raise UsageError(f"--save-model needs a command that makes one run; this one makes {made}")
    return planned


def schedule(planned, repetitions, seed):
    """Returns (repetition, index of the cell) in the order of making: rounds, each in an order of
    its own, so that drift does not become an effect."""
    order, generator = [], random.Random(seed)
    for repetition in range(repetitions):
        indices = list(range(len(planned)))
        generator.shuffle(indices)
        order += [(repetition, index) for index in (indices if repetitions > 1 else sorted(indices))]
    return order
