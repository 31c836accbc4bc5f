# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The programs that are compared: ddpbench, PyTorch's peer and Open MPI's."""
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = 421642  # of simple_cnn
UNTIMED = ["--verify-steps=0", "--epochs=1", "--quiet", "--force"]
STEPS = 60
WARMUP_STEPS = 10
# Steps of networks of large images take seconds: few of them.
NETWORK_STEPS = {"steps": 4, "warmup_steps": 1}
CROPS = {"deeplabv3_resnet101": 129}  # the side of images where the network takes any


def run(command, **options):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    except FileNotFoundError as missing:
        sys.exit(f"compare_peers.py: there is no {missing.filename}; the build's target `all` makes all programs")


def read_run(report):
    """The first run of a report."""
    with open(report, encoding="utf-8") as file:
        return json.load(file)["runs"][0]


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
        return read_run(report)

    def step(self, *arguments, **steps):
        return self.run(*arguments, **steps)["step"]["time_s"]["median"]

    def all_reduce(self, *arguments, launcher=None):
        """The median of the slowest rank's times. `launcher` runs a command as ranks; null: none does."""
        report = os.path.join(self.folder, "comm.json")
        command = [self.program, "comm", "--device=cpu", "--quiet", "--force", f"--json={report}", *arguments]
        launcher(*command, cwd=self.folder) if launcher else run(command, cwd=self.folder)
        with open(report, encoding="utf-8") as file:
            row = json.load(file)["collectives"][0]
        if row["wrong"] != 0:
            raise RuntimeError("the all-reduce computed wrong sums")
        return row["time_s"]["median"]

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path

    def model(self, name):
        """The argument for a network of configs/models."""
        model = name
        if name in CROPS:
            network = json.loads((ROOT / "configs" / "models" / f"{name}.json").read_text(encoding="utf-8"))
            network["input"][1:] = [CROPS[name]] * 2
            model = self.write(f"{name}-cropped.json", network)
        return f"--config={self.write(f'{name}.json', {'model': model})}"

    def network(self, model, batch, precision, *more):
        """The run of a few training steps on one device."""
        return self.run("--strategy=single", self.model(model), f"--batch-size={batch}",
                        f"--precision={precision}", *more, **NETWORK_STEPS)

    def traced_network(self, model, batch, precision):
        """The trace of such a run, as Chrome trace events."""
        trace = os.path.join(self.folder, "trace.json")
        self.network(model, batch, precision, f"--trace={trace}")
        with open(trace, encoding="utf-8") as file:
            return json.load(file)


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


def two_singles(ours, *arguments, **steps):
    """Two `single` runs with `arguments` at once, each on a core: the median of the slower one of each
    step. They start together and run the same number of steps, so steps k coincide up to drift."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    processes = []
    for core in cores:
        command, report = ours.command(f"single{core}", "--strategy=single", *arguments, **steps)
        processes.append((subprocess.Popen(["taskset", "-c", str(core), *command], cwd=ours.folder,
                                           stdout=subprocess.DEVNULL), report))
    samples = []
    for process, report in processes:
        if process.wait() != 0:
            raise RuntimeError("a single run failed")
        samples.append(read_run(report)["step"]["samples_s"])
    return statistics.median(max(pair) for pair in zip(*samples))


def mpirun(ranks, *command, **options):
    return run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), *command], **options)


def all_reduce_mpi(program, ranks, times, *, elements=PARAMETERS):
    return float(mpirun(ranks, program, str(elements), str(times)).split()[1]) * 1e-6


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def seconds_of(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin
