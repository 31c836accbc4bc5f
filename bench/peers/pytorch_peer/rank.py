# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The process of a rank, and the probe of what PyTorch has here. Started by launch.py.

    python -m pytorch_peer.rank probe
    python -m pytorch_peer.rank run SPEC RANK
"""
import ctypes
import json
import mmap
import os
import platform
import re
import resource
import signal
import sys
import time
import traceback

from .errors import PeerError

STATES = ("setup", "warm-up", "training", "evaluating", "finished")


def write_json(path, value):
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(temporary, path)


def probe():
    """Returns what the supervisor must know: it loads no PyTorch and opens no device itself."""
    try:
        import torch
        from torch import distributed
    except Exception as error:  # a broken installation may raise any exception
        return {"error": f"{type(error).__name__}: {error}"}
    cuda = torch.cuda.is_available()
    found = {"devices": [], "compile": hasattr(torch, "compile"),
             "libraries": {"torch": torch.__version__, "python": platform.python_version()},
             "gloo": distributed.is_available() and distributed.is_gloo_available(),
             "nccl": cuda and distributed.is_available() and distributed.is_nccl_available()}
    onednn = re.search(r"MKL-DNN v([\d.]+)", torch.__config__.show())
    if onednn:
        found["libraries"]["onednn"] = onednn.group(1)
    if cuda:
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            found["devices"].append({"name": device.name, "memory_bytes": device.total_memory})
        found["libraries"]["cuda"] = torch.version.cuda
        found["libraries"]["cudnn"] = str(torch.backends.cudnn.version())
        if found["nccl"]:
            found["libraries"]["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def describe_devices(spec, rank, trainer):
    """Returns the rows of this process's devices: dp has all of them in one process."""
    if spec["device"] == "cpu":
        return [{"replica": rank, "device": f"cpu:{rank}", "peak_bytes": None,
                 "peak_bytes_reason": "PyTorch does not tell what its CPU allocator handed out",
                 "cores": spec["cores"][rank] if spec["cores"] else []}]
    return [{"replica": replica, "device": f"cuda:{replica}", "cores": [], "peak_bytes": peak}
            for replica, peak in zip(trainer.replicas, trainer.peaks)]


def train(spec, rank, progress):
    from .training import Trainer
    result = {"rank": rank, "host": os.uname().nodename}

    def publish():
        result.update(epochs=[e for e in trainer.epochs if "test_counted" in e],
                      steps=trainer.clock.steps, phases=trainer.clock.phases,
                      devices=describe_devices(spec, rank, trainer),
                      peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        write_json(os.path.join(spec["folder"], f"result_{rank}.json"), result)

    trainer = Trainer(spec, rank, progress)
    result["parameters"] = sum(p.numel() for p in trainer.net.parameters() if p.requires_grad)
    result["ready"] = time.monotonic()
    progress.state(STATES.index("warm-up"))
    result["warmup_s"], result["evaluate_s"] = trainer.warm_up(), 0.0
    for epoch in range(spec["epochs"]):
        progress.state(STATES.index("training"))
        trainer.train_epoch(epoch)
        progress.state(STATES.index("evaluating"))
        result["evaluate_s"] += trainer.evaluate()
        publish()
        if spec["until_accuracy"] is not None and trainer.has_reached(spec["until_accuracy"]):
            break
    trainer.save()
    trainer.barrier()
    progress.state(STATES.index("finished"))


def die_with_the_supervisor():
    parent_death = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(parent_death, signal.SIGKILL)


def run(spec_path, rank):
    # Ctrl-C is for the supervisor to handle; the process group gets it, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_the_supervisor()
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    if spec["cores"]:
        os.sched_setaffinity(0, spec["cores"][rank])  # before PyTorch starts its threads
    with open(spec["progress"], "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    try:
        from .training import Progress
        train(spec, rank, Progress(memory, rank))
    except Exception as error:
        traceback.print_exc()
        known = isinstance(error, PeerError)
        write_json(os.path.join(spec["folder"], f"error_{rank}.json"),
                   {"time": time.monotonic(), "kind": error.kind if known else "internal",
                    "exit_code": error.exit_code if known else 1,
                    "message": str(error) if known else f"{type(error).__name__}: {error}"})
        sys.stderr.flush()
        # Peers may be in a collective with this process: a clean-up must not wait for them.
        os._exit(error.exit_code if known else 1)
    sys.stdout.flush()
    # All work is done; threads of process groups make some versions hang at exit.
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        print(json.dumps(probe()))
    else:
        run(sys.argv[2], int(sys.argv[3]))
