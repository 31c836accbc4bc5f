# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""What all trials of fault_trial.sh share: a folder, the program in it, and what must hold after."""
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

TIMEOUT_S = 4  # --timeout of all runs
# docs/reliability.md: a fault ends a run within --timeout and five more seconds.
AFTER_TIMEOUT_S = 5
NEVER_S = 120  # a program that has not ended by then hangs


class Miss(Exception):
    """Something that must hold does not."""


class Skip(Exception):
    """The fault did not meet what it was meant for; the trial says nothing."""


class Ended:
    """How a program ended."""

    def __init__(self, code, seconds, out, err):
        self.code = code  # 128 + signal when a signal ended it
        self.seconds = seconds
        self.out, self.err = out, err

    def expect(self, *codes):
        if self.code not in codes:
            raise Miss(f"exit {self.code}, expected one of {codes}: {self.err[-400:]!r}")


class Process:
    """The program under way, in a process group of its own."""

    def __init__(self, trial, arguments, variables=None, **options):
        self.trial = trial
        self.tag = trial.next_tag()
        self.paths = [trial.folder / f"{name}.{self.tag}" for name in ("out", "err")]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(trial.folder)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                environment[name] = os.environ[name]
        environment.update(variables or {})
        self.begin = time.monotonic()
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen([options.pop("program", trial.program), *arguments],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            cwd=trial.folder, env=environment,
                                            start_new_session=True, **options)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def wait(self, at_most_s=NEVER_S):
        try:
            code = self.process.wait(max(0.1, at_most_s))
        except subprocess.TimeoutExpired:
            signal_group(self.pid, signal.SIGKILL)
            self.process.wait()
            raise Miss(f"not ended after {at_most_s:.1f} s: {self.text(1)[-400:]!r}") from None
        seconds = time.monotonic() - self.begin
        return Ended(code if code >= 0 else 128 - code, seconds, self.text(0), self.text(1))

    def text(self, which):
        return self.paths[which].read_bytes().decode("utf-8", "replace")


class Trial:
    """One trial: its random numbers, and a folder in which the program runs."""

    def __init__(self, program, seed, kind, number, sanitized=None):
        self.program, self.sanitized = program, sanitized
        self.name = f"{kind}:{number}"
        self.number = number
        self.random = random.Random(f"{seed}/{self.name}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddpbench-fault-")).resolve()
        self.tags = 0
        self.sanitized_inputs = 0  # read by the program with sanitizers, too
        self.results = {"report.json"}  # files that may be there at the end
        self.ports = []  # at which its stores listened
        self.shared = set(os.listdir("/dev/shm"))
        write_data(self.folder / "data" / "mnist", random.Random(7))
        (self.folder / "c.json").write_text('{"model": "lenet5"}', encoding="utf-8")

    def next_tag(self):
        self.tags += 1
        return self.tags

    def start(self, arguments, variables=None, **options):
        return Process(self, arguments, variables, **options)

    def run(self, arguments, variables=None, **options):
        return self.start(arguments, variables, **options).wait()

    def report(self, name="report.json"):
        """The report, if it is one; a Miss otherwise."""
        path = self.folder / name
        if not path.exists():
            raise Miss(f"no {name}")
        shown = self.run(["show", name])
        if shown.code != 0:
            raise Miss(f"{name} is not valid: {shown.err[-300:]!r}")
        return json.loads(path.read_text(encoding="utf-8"))

    def processes(self):
        """The program's processes that still exist: those with this working directory."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd") == str(self.folder):
                    found.append(int(entry))
            except OSError:
                pass
        return found

    def ranks(self, supervisor):
        """{pid: variables} of the ranks that a supervisor has started and that run the program."""
        found = {}
        for pid in self.processes():
            if pid == supervisor:
                continue
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    block = file.read().decode("utf-8", "replace")
            except OSError:
                continue
            variables = dict(item.split("=", 1) for item in block.split("\0") if "=" in item)
            if "DDPBENCH_RUN_FD" in variables and "RANK" in variables:
                found[pid] = variables
        return found

    def expect_nothing_left(self):
        """No process, no file that is not a result, and no named shared memory."""
        end = time.monotonic() + 3
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        if self.processes():
            names = [command_of(pid) for pid in self.processes()]
            for pid in self.processes():
                signal_one(pid, signal.SIGKILL)
            raise Miss(f"left processes: {names}")
        tags = {path.name for path in self.folder.iterdir() if path.name[:4] in ("out.", "err.")}
        known = self.results | tags | {"c.json", "data", ".cache"}
        files = {path.name for path in self.folder.iterdir()} - known
        if files:
            raise Miss(f"left files: {sorted(files)}")
        # In its TMPDIR. The folder of secrets is its user's, and stays.
        left = [str(path) for path in (self.folder / "tmp").rglob("*")
                if not path.is_dir() or path.name.startswith("ompi")]
        if left:
            raise Miss(f"left temporary files: {sorted(left)}")
        # Others of this machine make shared memory, too, though not with these names.
        shared = [name for name in set(os.listdir("/dev/shm")) - self.shared
                  if re.search("ddpbench|^vader_segment|^ompi|^pmix", name)]
        if shared:
            raise Miss(f"left shared memory: {shared}")
        for port in self.ports:
            self.expect_free(port)

    @staticmethod
    def expect_free(port):
        """A store could be made at this port of loopback again."""
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                again.bind(("127.0.0.1", port))
            except OSError as error:
                raise Miss(f"left port {port}: {error}") from None

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")[:120]
    except OSError:
        return str(pid)


def signal_one(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def state_of(pid):
    """"R", "S", "T", ..., or None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def write_data(folder, numbers):
    """A small MNIST: 512 images to train with, 128 to test."""
    folder.mkdir(parents=True)
    for part, count in (("train", 512), ("t10k", 128)):
        images = struct.pack(">IIII", 0x803, count, 28, 28) + numbers.randbytes(count * 784)
        labels = struct.pack(">II", 0x801, count) + bytes(numbers.randrange(10)
                                                          for _ in range(count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, mtime=0))


def run_arguments(strategy, world, steps, *more, servers=1, batch=8):
    """A run on the small data set; `more` replaces what is here."""
    arguments = [f"--strategy={strategy}", "--config=c.json", "--device=cpu",
                 f"--batch-size={batch}", "--epochs=1", f"--steps={steps}", "--warmup-steps=2",
                 "--warmup-max-steps=2", "--verify-steps=2", f"--timeout={TIMEOUT_S}",
                 "--data-dir=data", "--json=report.json"]
    if strategy != "single":
        arguments.append(f"--gpus={world}")
    if strategy == "ps":
        arguments.append(f"--servers={servers}")
    given = {each.split("=")[0] for each in more}
    return [each for each in arguments if each.split("=")[0] not in given] + list(more)
