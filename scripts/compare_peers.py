#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Compares ddpbench with PyTorch and Open MPI on this machine, in turn, and prints ratios.

Every comparison alternates A B A B ..., because machines drift: a ratio of two medians from one
interleaved run means something, an absolute time from another day does not. What is not installed
(PyTorch, mpicc) is named and left out. PyTorch runs at the better of channels_last and contiguous.

  scripts/compare_peers.py --build build/cpu-release [--rounds 3] [--only step,ddp,...]
                           [--peer-tree /srv/trixie]

--peer-tree takes PyTorch from a Debian tree (debootstrap) that has a newer one than this machine, and
needs root; docs/performance.md says how to make one.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARAMETERS = 421642  # of simple_cnn
UNTIMED = ["--verify-steps=0", "--epochs=1", "--quiet", "--force"]
STEPS = 60
WARMUP_STEPS = 10
# Networks of 224 x 224 images: the name of the row in --only, ours (configs/models) and torchvision's name, batch,
# precision. A step takes seconds: few of them.
NETWORKS = {
    "resnet18": ("resnet18", 16, "fp32"),
    "resnet50": ("resnet50", 16, "fp32"),
    "vgg16": ("vgg16", 8, "fp32"),
    "resnet50-bf16": ("resnet50", 16, "bf16"),
}
NETWORK_STEPS = 4
NETWORK_WARMUP_STEPS = 1
# The engines' all-reduces, and a start, beside the libraries alone.
ENGINE_ROWS = "gloo,mpi,mpi25,mpistart,hosts"
DEFAULT_ROWS = "step,ddp,overhead,allreduce2,allreduce4,startup,memory"


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Ours:
    def __init__(self, build, folder):
        self.program = str(pathlib.Path(build).resolve() / "bin" / "ddpbench")
        self.folder = folder

    def command(self, name, *arguments, steps=STEPS, warmup_steps=WARMUP_STEPS):
        report = os.path.join(self.folder, name + ".json")
        return [self.program, "--device=cpu", *UNTIMED, f"--warmup-steps={warmup_steps}",
                f"--steps={steps}", f"--json={report}", *arguments], report

    def run(self, *arguments, **steps):
        command, report = self.command("ours", *arguments, **steps)
        run(command, cwd=self.folder)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["runs"][0]

    def step(self, *arguments):
        return self.run(*arguments)["step"]["time_s"]["median"]

    def all_reduce(self, *arguments):
        """The median of the slowest rank's times."""
        report = os.path.join(self.folder, "comm.json")
        run([self.program, "comm", "--device=cpu", "--iterations=200", "--quiet", "--force",
             f"--json={report}", *arguments], cwd=self.folder)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["collectives"][0]["time_s"]["median"]

    def network(self, model, batch, precision):
        """The run of a few training steps on one device."""
        config = os.path.join(self.folder, f"{model}.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model": model}, file)
        return self.run("--strategy=single", f"--config={config}", f"--batch-size={batch}",
                        f"--precision={precision}", steps=NETWORK_STEPS,
                        warmup_steps=NETWORK_WARMUP_STEPS)


# With mounts of its own, which end with it: PyTorch looks at /proc, its ranks at /dev/shm. The peer
# starts when they are there.
IN_TREE = ["unshare", "--mount", "--propagation", "private", "bash", "-c", """set -e
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/mnt"
cp "$1" "$0/mnt/peer.py"
shift
export LC_ALL=C
exec chroot "$0" /usr/bin/env -i PATH=/usr/bin:/bin "${@/#--started-at=now/--started-at=$EPOCHREALTIME}" """]


ABSENT = 3  # the exit status of pytorch_step.py without PyTorch
NO_PROGRAM = 127  # that of env without the interpreter
FAILED = 3  # ours when a peer that was asked for, or that is there, does not run


class PeerError(Exception):
    """A peer that does not run."""


class Torch:
    """pytorch_step.py with the PyTorch of this machine, or of the Debian tree `tree`."""

    def __init__(self, tree=None):
        self.tree = tree
        peer = str(ROOT / "bench" / "peers" / "pytorch_step.py")
        # A device has one thread, in OpenBLAS as well. Debian's build has no libuv.
        settings = ["OMP_WAIT_POLICY=PASSIVE", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
                    "USE_LIBUV=0"]
        if tree:
            self.candidates = [[*IN_TREE, str(tree), peer, *settings, "/usr/bin/python3",
                                "/mnt/peer.py"]]
        else:
            self.candidates = [["env", *settings, python, peer]
                               for python in ("/usr/bin/python3", sys.executable)]

    def command(self):
        """The first candidate that has PyTorch; none when none has it. Raises PeerError with what a
        candidate said when it fails otherwise, or when it is the tree that was asked for."""
        reasons = []
        for candidate in self.candidates:
            done = subprocess.run([*candidate, "--steps=1", "--warmup-steps=0", "--batch-size=1"],
                                  capture_output=True, text=True, check=False)
            if done.returncode == 0:
                self.candidates = [candidate]
                return candidate
            if self.tree or done.returncode not in (ABSENT, NO_PROGRAM):
                where = f"in the tree {self.tree}" if self.tree else "here"
                reasons.append(f"PyTorch does not run {where} (exit status {done.returncode}):\n"
                               f"{done.stderr.strip()}")
        if reasons:
            raise PeerError("\n".join(reasons))
        return None

    def figure(self, name, *arguments):
        started = f"--started-at={'now' if self.tree else time.time()}"
        return json.loads(run([*self.candidates[0], started, *arguments]))[name]

    def best(self, figure, *arguments):
        """The least of `figure` over both memory formats."""
        return min(self.figure(figure, *layout, *arguments) for layout in ([], ["--contiguous"]))


def two_singles(ours):
    """Two `single` runs at once, each on a core: the median of the slower one of each step. They
    start together and run the same number of steps, so steps k coincide up to drift."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    processes = []
    for core in cores:
        command, report = ours.command(f"single{core}", "--strategy=single", "--batch-size=128")
        processes.append((subprocess.Popen(["taskset", "-c", str(core), *command], cwd=ours.folder,
                                           stdout=subprocess.DEVNULL), report))
    samples = []
    for process, report in processes:
        if process.wait() != 0:
            raise RuntimeError("a single run failed")
        with open(report, encoding="utf-8") as file:
            samples.append(json.load(file)["runs"][0]["step"]["samples_s"])
    return statistics.median(max(pair) for pair in zip(*samples))


def all_reduce_ours(build, ranks):
    """The mean of the slowest rank's times, for blocking calls on registered memory."""
    program = str(pathlib.Path(build).resolve() / "bin" / "comm_bench")
    name = f"all_reduce/processes/ranks:{ranks}/bytes:{4 * PARAMETERS}/manual_time"
    report = json.loads(run([program, f"--benchmark_filter={name}", "--benchmark_format=json",
                             "--benchmark_min_time=0.3"]))["benchmarks"][0]
    if report["wrong"] != 0:
        raise RuntimeError("the all-reduce computed wrong sums")
    return report["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[report["time_unit"]]


def mpirun(ranks, *command, **options):
    return run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), *command], **options)


def all_reduce_mpi(program, ranks, times, *, elements=PARAMETERS, more=()):
    return float(mpirun(ranks, program, str(elements), str(times), *more).split()[1]) * 1e-6


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds_of(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def compare_engines(ours, torch, build, programs, wanted, rounds):
    """The rows of ENGINE_ROWS that are `wanted`. `programs`: a folder with the peers' programs; null
    without MPI. `torch`: null without PyTorch."""
    if "gloo" in wanted and torch:
        size = 4 * PARAMETERS
        compare("all-reduce of 1.69 MB over gloo, 2 ranks (PyTorch's Gloo)",
                lambda: ours.all_reduce("--backend=gloo", f"--sizes={size}", "--ranks=2"),
                lambda: torch.figure("median_s", "--ranks=2", f"--all-reduce-bytes={size}", "--steps=200"),
                max(rounds, 5), 1e6, "us")
    if not programs:
        return
    own = str(pathlib.Path(build).resolve() / "bin" / "mpi_bench")
    for row, elements, what in (("mpi", PARAMETERS, "1.69 MB"), ("mpi25", 25 << 18, "25 MiB")):
        if row in wanted:
            times = 300 if row == "mpi" else 60
            compare(f"all-reduce of {what} over mpi, 2 ranks (MPI_Allreduce)",
                    lambda n=elements, t=times: all_reduce_mpi(own, 2, t, elements=n, more=[str(free_port())]),
                    lambda n=elements, t=times: all_reduce_mpi(f"{programs}/mpi_all_reduce", 2, t, elements=n),
                    max(rounds, 5), 1e6, "us")
    if "mpistart" in wanted:
        def reach_first_step():
            os.environ["MASTER_PORT"] = str(free_port())
            command, report = ours.command("start", "--strategy=ddp", "--backend=mpi", "--oversubscribe",
                                           steps=1, warmup_steps=0)
            whole_s = seconds_of(lambda: mpirun(4, *command, cwd=ours.folder))
            with open(report, encoding="utf-8") as file:
                time_s = json.load(file)["runs"][0]["time"]
            return whole_s - (time_s["total_s"] - time_s["startup_s"])
        compare("mpirun of 4 ranks until the first step, and its end (with MPI_Init alone)",
                reach_first_step,
                lambda: seconds_of(lambda: mpirun(4, f"{programs}/mpi_start")), max(rounds, 5))


def compare(title, ours, peer, rounds, unit=1e3, suffix="ms"):
    """Alternates both. Prints the medians and the median of the rounds' ratios."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in pairs)
    spread = f"{min(a / b for a, b in pairs):.3f}-{max(a / b for a, b in pairs):.3f}"
    mine, theirs = (statistics.median(column) * unit for column in zip(*pairs))
    print(f"| {title} | {theirs:.2f} {suffix} | {mine:.2f} {suffix} | {ratio:.3f} | {spread} |",
          flush=True)


def compare_host_starts(ours, rounds):
    """The start over four hosts (namespaces of this machine), beside what the remote shell takes to
    enter all at once."""
    sys.dont_write_bytecode = True
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
            hosts.run(hosts.command(words[0], range(4), "gloo", words[1:]), 60)
            with open(report, encoding="utf-8") as file:
                return json.load(file)["runs"][0]["time"]["startup_s"]

        def enter():
            shells = [subprocess.Popen([str(hosts.shell), hosts.lab.address(host), "true"])
                      for host in range(4)]
            if any(shell.wait() for shell in shells):
                raise RuntimeError("the remote shell failed")
        compare("start over 4 hosts until the first step (the remote shell alone)", start,
                lambda: seconds_of(enter), max(rounds, 5))


def compare_networks(ours, torch, wanted, rounds):
    """The rows of NETWORKS that are `wanted`: the step, and for ResNet-50 in fp32 the peak memory."""
    for row, (model, batch, precision) in NETWORKS.items():
        peer = [f"--network={model}", f"--batch-size={batch}", f"--precision={precision}",
                f"--steps={NETWORK_STEPS}", f"--warmup-steps={NETWORK_WARMUP_STEPS}"]
        what = f"{model} {precision}, 224 x 224, batch {batch}"
        if row in wanted:
            compare(f"training step of {what}",
                    lambda: ours.network(model, batch, precision)["step"]["time_s"]["median"],
                    lambda: torch.best("median_s", *peer), rounds)
        if f"{row}-memory" in wanted:
            compare(f"peak memory of {what}",
                    lambda: ours.network(model, batch, precision)["devices"][0]["memory"]
                    ["process_peak_rss_bytes"],
                    lambda: torch.best("process_peak_rss_bytes", *peer), 1, 1e-6, "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "cpu-release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=DEFAULT_ROWS,
                        help=f"rows, by default {DEFAULT_ROWS}; further "
                             f"{ENGINE_ROWS}; {','.join(NETWORKS)} and any of these with -memory, which take minutes")
    parser.add_argument("--peer-tree", type=pathlib.Path, metavar="DIR",
                        help="a Debian tree to take PyTorch from")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    torch = Torch(arguments.peer_tree)
    try:
        has_torch = torch.command() is not None
    except PeerError as error:
        print(error, file=sys.stderr)
        return FAILED
    mpi = shutil.which("mpicc")
    print("| what | peer | ours | ours / peer | rounds |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(arguments.build, folder)
        rounds = arguments.rounds
        if not has_torch:
            print("PyTorch is not installed: step, ddp, startup and memory are left out",
                  file=sys.stderr)
        else:
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
                        lambda: ours.run("--strategy=single", "--batch-size=256")["devices"][0]
                        ["memory"]["process_peak_rss_bytes"],
                        lambda: torch.best("process_peak_rss_bytes", "--batch-size=256"), rounds, 1e-6, "MB")
            if "startup" in wanted:
                compare("start of 2 ranks until the first step (PyTorch DDP, Gloo)",
                        lambda: ours.run("--strategy=ddp", "--gpus=2", steps=1)["time"]["startup_s"],
                        lambda: torch.best("start_s", "--ranks=2", "--batch-size=64", "--steps=1",
                                           "--warmup-steps=0"), rounds)
            compare_networks(ours, torch, wanted, rounds)
        if "overhead" in wanted:
            compare("ddp step on 2 devices (two simultaneous single runs, batch 128)",
                    lambda: ours.step("--strategy=ddp", "--gpus=2", "--global-batch-size=256"),
                    lambda: two_singles(ours), max(rounds, 5))
        if mpi is None:
            print("mpicc is not installed: all-reduce is left out", file=sys.stderr)
        else:
            for name in ("mpi_all_reduce", "mpi_start"):
                run([mpi, "-O2", str(ROOT / "bench" / "peers" / f"{name}.c"), "-o", f"{folder}/{name}"])
            program = f"{folder}/mpi_all_reduce"
            for ranks in (2, 4):
                if f"allreduce{ranks}" in wanted:
                    compare(f"all-reduce of 1.69 MB, {ranks} ranks (Open MPI)",
                            lambda n=ranks: all_reduce_ours(arguments.build, n),
                            lambda n=ranks: all_reduce_mpi(program, n, 300), max(rounds, 5), 1e6, "us")
        compare_engines(ours, torch if has_torch else None, arguments.build, folder if mpi else None,
                        wanted, rounds)
        if "hosts" in wanted:
            compare_host_starts(ours, rounds)


if __name__ == "__main__":
    sys.exit(main())
