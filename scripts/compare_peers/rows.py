# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the table, by groups."""
import os
import shutil
import statistics
import subprocess
import sys

from programs import (CROPS, NETWORK_STEPS, PARAMETERS, ROOT, all_reduce_mpi, free_port, mpirun, read_run, run,
                      seconds_of, two_singles)
from step_parts import rest_and_convolutions

# Networks of 224 x 224 images, or of CROPS: the name of the row in --only, ours (configs/models) and torchvision's
# name, batch, precision.
NETWORKS = {
    "resnet18": ("resnet18", 16, "fp32"),
    "resnet50": ("resnet50", 16, "fp32"),
    "vgg16": ("vgg16", 8, "fp32"),
    "resnet50-bf16": ("resnet50", 16, "bf16"),
    "deeplab": ("deeplabv3_resnet101", 2, "fp32"),
}
# Strategies on ResNet-18, 2 devices with batch 8 each, both sides over Gloo: the name in --only (resnet18-NAME) and of
# the peer, what PyTorch has for it, our options.
STRATEGIES = {
    "ddp": ("DDP", ["--strategy=ddp"]),
    "accumulation": ("4 passes below no_sync", ["--strategy=ddp", "--accumulation-steps=4"]),
    "zero1": ("ZeroRedundancyOptimizer", ["--strategy=zero1"]),
    "hook-fp16": ("fp16_compress_hook", ["--strategy=ddp", "--comm-hook=fp16"]),
    "localsgd": ("PeriodicModelAverager, 4 steps", ["--strategy=localsgd", "--sync-every=4"]),
}
# The engines' all-reduces, and a start, beside the libraries alone.
ENGINE_ROWS = "gloo,gloo25,mpi,mpi25,mpistart,hosts"
# Parts of ddpbench beside each other.
OWN_ROWS = "resnet18-overhead,resnet50-rest"
DEFAULT_ROWS = "step,ddp,overhead,allreduce2,allreduce4,startup,memory"
ALL_ROWS = [*DEFAULT_ROWS.split(","), *ENGINE_ROWS.split(","), *OWN_ROWS.split(","), *NETWORKS,
            *(f"resnet18-{name}" for name in STRATEGIES),
            *(f"{name}-memory" for name in NETWORKS)]
UNAVAILABLE = 3  # the exit status of ddpbench where the machine lacks something


def show(title, pairs, unit=1e3, suffix="ms"):
    """Prints the medians of pairs (ours, peer) and the median of their ratios."""
    ratio = statistics.median(a / b for a, b in pairs)
    spread = f"{min(a / b for a, b in pairs):.3f}-{max(a / b for a, b in pairs):.3f}"
    mine, theirs = (statistics.median(column) * unit for column in zip(*pairs))
    print(f"| {title} | {theirs:.2f} {suffix} | {mine:.2f} {suffix} | {ratio:.3f} | {spread} |",
          flush=True)


def compare(title, ours, peer, rounds, unit=1e3, suffix="ms"):
    """Alternates both."""
    show(title, [(ours(), peer()) for _ in range(rounds)], unit, suffix)


def compare_with_torch(ours, torch, wanted, rounds):
    if "step" in wanted:
        compare("training step, batch 256, 1 device (PyTorch)",
                lambda: ours.step("--strategy=single", "--batch-size=256"),
                lambda: torch.best("median_s", "--batch-size=256"), rounds)
    if "ddp" in wanted:
        compare("training step, global batch 256, ddp on 2 devices (PyTorch DDP, Gloo)",
                lambda: ours.step("--strategy=ddp", "--gpus=2", "--global-batch-size=256"),
                lambda: torch.best("median_s", "--ranks=2", "--batch-size=128"), rounds)
    if "memory" in wanted:
        compare("peak memory of a single process (PyTorch)",
                lambda: ours.run("--strategy=single", "--batch-size=256")["devices"][0]["memory"]
                ["process_peak_rss_bytes"],
                lambda: torch.best("process_peak_rss_bytes", "--batch-size=256"), rounds, 1e-6, "MB")
    if "startup" in wanted:
        compare("start of 2 ranks until the first step (PyTorch DDP, Gloo)",
                lambda: ours.run("--strategy=ddp", "--gpus=2", steps=1)["time"]["startup_s"],
                lambda: torch.best("start_s", "--ranks=2", "--batch-size=64", "--steps=1", "--warmup-steps=0"),
                rounds)
    compare_networks(ours, torch, wanted, rounds)
    compare_strategies(ours, torch, wanted, rounds)


def compare_networks(ours, torch, wanted, rounds):
    """The rows of NETWORKS that are `wanted`: the step, or the peak memory."""
    for row, (model, batch, precision) in NETWORKS.items():
        side = CROPS.get(model, 224)
        peer = [f"--network={model}", f"--crop={side}", f"--batch-size={batch}", f"--precision={precision}",
                f"--steps={NETWORK_STEPS['steps']}", f"--warmup-steps={NETWORK_STEPS['warmup_steps']}"]
        what = f"{model} {precision}, {side} x {side}, batch {batch}"
        if row in wanted:
            compare(f"training step of {what}",
                    lambda: ours.network(model, batch, precision)["step"]["time_s"]["median"],
                    lambda: torch.best("median_s", *peer), rounds)
        if f"{row}-memory" in wanted:
            compare(f"peak memory of {what}",
                    lambda: ours.network(model, batch, precision)["devices"][0]["memory"]
                    ["process_peak_rss_bytes"],
                    lambda: torch.best("process_peak_rss_bytes", *peer), 1, 1e-6, "MB")


def compare_strategies(ours, torch, wanted, rounds):
    """The rows of STRATEGIES that are `wanted`. Those of local SGD are whole cycles."""
    for name, (theirs, options) in STRATEGIES.items():
        if f"resnet18-{name}" not in wanted:
            continue
        steps = {"steps": 8, "warmup_steps": 4} if name == "localsgd" else NETWORK_STEPS
        compare(f"step of {name}, resnet18, 2 devices of batch 8 over gloo ({theirs})",
                lambda: ours.step("--gpus=2", "--batch-size=8", "--backend=gloo", "--precision=fp32",
                                  ours.model("resnet18"), *options, **steps),
                lambda: torch.best("median_s", "--network=resnet18", "--ranks=2", "--batch-size=8",
                                   f"--strategy={name}", f"--steps={steps['steps']}",
                                   f"--warmup-steps={steps['warmup_steps']}"), rounds)


def compare_overheads(ours, wanted, rounds):
    """A step of ddp on two devices beside two runs at once that do not know of each other."""
    if "overhead" in wanted:
        compare("ddp step on 2 devices (two simultaneous single runs, batch 128)",
                lambda: ours.step("--strategy=ddp", "--gpus=2", "--global-batch-size=256"),
                lambda: two_singles(ours, "--batch-size=128"), max(rounds, 5))
    if "resnet18-overhead" in wanted:
        network = ours.model("resnet18")
        compare("ddp step of resnet18 fp32, 224 x 224, on 2 devices (two simultaneous single runs, batch 8)",
                lambda: ours.step("--strategy=ddp", "--gpus=2", "--global-batch-size=16", network,
                                  "--precision=fp32", **NETWORK_STEPS),
                lambda: two_singles(ours, "--batch-size=8", network, "--precision=fp32", **NETWORK_STEPS),
                rounds)


def compare_rest(ours, wanted, rounds):
    """What of a step of ResNet-50 is no convolution, beside the convolutions of the same run."""
    if "resnet50-rest" not in wanted:
        return
    for precision in ("fp32", "bf16"):
        title = f"rest of a step of resnet50 {precision}, 224 x 224, batch 16 (its convolutions)"
        try:
            show(title, [rest_and_convolutions(ours.traced_network("resnet50", 16, precision))
                         for _ in range(rounds)])
        except subprocess.CalledProcessError as error:
            if error.returncode != UNAVAILABLE:
                raise
            print(f"{error.stderr.strip()}: resnet50-rest in {precision} is left out", file=sys.stderr)


def compare_engines(ours, programs, wanted, rounds):
    """The rows of ENGINE_ROWS that are `wanted`. `programs`: a folder with the peers' programs; null
    without MPI."""
    sizes = (("", PARAMETERS, "1.69 MB", 300), ("25", 25 << 18, "25 MiB", 60))
    for suffix, elements, what, times in sizes:
        if f"gloo{suffix}" in wanted:
            program = build_gloo_program(ours.folder)
            compare(f"all-reduce of {what} over gloo, 2 ranks (gloo::allreduce)",
                    lambda n=elements, t=times: ours.all_reduce("--backend=gloo", f"--sizes={4 * n}",
                                                                "--ranks=2", f"--iterations={t}"),
                    lambda n=elements, t=times: float(run([program, "2", str(n), str(t)]).split()[1]) * 1e-6,
                    max(rounds, 5), 1e6, "us")
    if not programs:
        return
    for suffix, elements, what, times in sizes:
        if f"mpi{suffix}" in wanted:

            def own(size=4 * elements, times=times):
                os.environ["MASTER_PORT"] = str(free_port())
                return ours.all_reduce("--backend=mpi", f"--sizes={size}",
                                       f"--iterations={times}",
                                       launcher=lambda *command, **more: mpirun(2, *command, **more))
            compare(f"all-reduce of {what} over mpi, 2 ranks (MPI_Allreduce)", own,
                    lambda n=elements, t=times: all_reduce_mpi(f"{programs}/mpi_all_reduce", 2, t, elements=n),
                    max(rounds, 5), 1e6, "us")
    if "mpistart" in wanted:
        def reach_first_step():
            os.environ["MASTER_PORT"] = str(free_port())
            command, report = ours.command("start", "--strategy=ddp", "--backend=mpi", "--oversubscribe",
                                           steps=1, warmup_steps=0)
            whole_s = seconds_of(lambda: mpirun(4, *command, cwd=ours.folder))
            time_s = read_run(report)["time"]
            return whole_s - (time_s["total_s"] - time_s["startup_s"])
        compare("mpirun of 4 ranks until the first step, and its end (with MPI_Init alone)",
                reach_first_step,
                lambda: seconds_of(lambda: mpirun(4, f"{programs}/mpi_start")), max(rounds, 5))


def compare_all_reduces(ours, program, wanted, rounds):
    for ranks in (2, 4):
        if f"allreduce{ranks}" in wanted:
            compare(f"all-reduce of 1.69 MB, {ranks} ranks (Open MPI)",
                    lambda n=ranks: ours.all_reduce("--backend=shm", f"--sizes={4 * PARAMETERS}", f"--ranks={n}",
                                                    "--iterations=300"),
                    lambda n=ranks: all_reduce_mpi(program, n, 300), max(rounds, 5), 1e6, "us")


def build_gloo_program(folder):
    program = f"{folder}/gloo_all_reduce"
    run(["g++", "-O2", str(ROOT / "bench" / "peers" / "gloo_all_reduce.cpp"), "-lgloo", "-o", program])
    return program


def build_mpi_programs(folder):
    """Returns the folder; null without MPI's compiler."""
    mpi = shutil.which("mpicc")
    if mpi is None:
        return None
    for name in ("mpi_all_reduce", "mpi_start"):
        run([mpi, "-O2", str(ROOT / "bench" / "peers" / f"{name}.c"), "-o", f"{folder}/{name}"])
    return folder


def train_and_evaluate_s(time_s):
    """The parts of a run behind its start. `total_s` is no measure of them where the supervisor starts
    agents: it has their start, too."""
    return sum(time_s[part] or 0 for part in ("verify_s", "warmup_s", "train_s", "evaluate_s"))


def compare_host_starts(ours, wanted, rounds):
    """The command over four hosts (namespaces of this machine) without its steps, beside what the remote
    shell takes to enter all at once."""
    if "hosts" not in wanted:
        return
    sys.path.insert(0, str(ROOT / "scripts" / "network_study"))
    import laboratory
    import plan
    if reason := laboratory.lab.reason_to_skip():
        print(f"{reason}: hosts is left out", file=sys.stderr)
        return
    network = plan.Network("start", "", "1gbit", [plan.Command("start", (4,), ())])
    with laboratory.Laboratory(ours.folder, network) as hosts:
        def start():
            words, report = ours.command("start", "--strategy=ddp", "--gpus=4", steps=1, warmup_steps=0)
            command = hosts.command(words[0], range(4), "gloo", words[1:])
            whole_s = seconds_of(lambda: hosts.run(command, 60))
            return whole_s - train_and_evaluate_s(read_run(report)["time"])

        def enter():
            shells = [subprocess.Popen([str(hosts.shell), hosts.lab.address(host), "true"])
                      for host in range(4)]
            if any(shell.wait() for shell in shells):
                raise RuntimeError("the remote shell failed")
        compare("start over 4 hosts until the first step, and its end (the remote shell alone)", start,
                lambda: seconds_of(enter), max(rounds, 5))
