# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of a run, watches them, and collects their results."""
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time

from .errors import RANK_LOST
from .rank import STATES

PEERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BYTES_A_RANK = 32  # heartbeat, state, steps, nothing
POLL_S = 0.05
LOG_TAIL = 400


class Interrupt:
    """Ctrl-C and SIGTERM, remembered until the supervisor looks."""

    def __init__(self):
        self.happened = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.note)

    def note(self, _number, _frame):
        self.happened = True


class Outcome:
    """The results of the ranks of a run that wrote some, and why the run ended early."""

    def __init__(self):
        self.results, self.error, self.interrupted = [], None, False
        self.exit_code, self.started, self.total_s = 0, 0.0, 0.0


def rank_environment(spec):
    path = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": PEERS + (os.pathsep + path if path else ""),
                   "OMP_NUM_THREADS": str(spec["threads"]),
                   "MKL_NUM_THREADS": str(spec["threads"])}
    # All ranks are on this host; Gloo would ask the resolver for the host's name.
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Threads that spin take the core from those that communicate.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if spec["compile"] == "cuda-graphs":  # PyTorch's notes on CUDA graphs with NCCL ask for this
        environment.update(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="0")
    return environment


def python(*arguments):
    return [sys.executable, "-B", "-m", "pytorch_peer.rank", *arguments]


def probe():
    """Returns what PyTorch has here; {"error": ...} without PyTorch."""
    result = subprocess.run(python("probe"), capture_output=True, text=True, check=False,
                            env={**os.environ, "PYTHONPATH": PEERS + os.pathsep +
                                 os.environ.get("PYTHONPATH", "")})
    try:
        return json.loads(result.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"the interpreter ended with {result.returncode}: {result.stderr[-300:]}"}


class Launch:
    """One run in fresh processes, in a folder of its own."""

    def __init__(self, spec, folder):
        self.folder = folder
        self.count = spec["processes"]
        self.spec = {**spec, "folder": folder, "store": os.path.join(folder, "store"),
                     "progress": os.path.join(folder, "progress")}
        with open(self.spec["progress"], "wb") as file:
            file.truncate(max(mmap.PAGESIZE, BYTES_A_RANK * self.count))
        with open(self.spec["progress"], "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        self.processes = []

    def start(self):
        path = os.path.join(self.folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.spec, file)
        environment = rank_environment(self.spec)
        for rank in range(self.count):
            with open(self.log(rank), "wb") as log:
                self.processes.append(subprocess.Popen(
                    python("run", path, str(rank)), env=environment, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True))

    def log(self, rank):
        return os.path.join(self.folder, f"rank_{rank}.log")

    def watch(self, interrupt):
        """Returns when all have ended, one failed, nothing moved for the timeout, or at Ctrl-C."""
        beats, moved = None, time.monotonic()
        while not interrupt.happened:
            codes = [process.poll() for process in self.processes]
            if any(code not in (None, 0) for code in codes):
                return "failed"
            if all(code == 0 for code in codes):
                return "done"
            now = [self.words[4 * rank] for rank in range(self.count)]
            if now != beats:
                beats, moved = now, time.monotonic()
            elif self.spec["timeout"] and time.monotonic() - moved > self.spec["timeout"]:
                return "stalled"
            time.sleep(POLL_S)
        return "interrupted"

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()

    def read(self, name):
        found = []
        for rank in range(self.count):
            path = os.path.join(self.folder, f"{name}_{rank}.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found.append((rank, json.load(file)))
        return found

    def tail(self, rank):
        with open(self.log(rank), encoding="utf-8", errors="replace") as file:
            return " ".join(file.read().split())[-LOG_TAIL:]

    def error(self, kind, rank, message, number=None):
        state = STATES[self.words[4 * rank + 1]]
        steps = self.words[4 * rank + 2]
        return {"kind": kind, "rank": rank, "host": os.uname().nodename, "signal": number,
                "step": steps if state != "setup" else None, "phase": None, "operation": None,
                "message": f"rank {rank} (in {state}, step {steps}): {message}"}

    def failure(self, codes):
        """Returns (error, exit code) of the process that failed first: others follow it."""
        told = self.read("error")
        killed = [rank for rank, code in enumerate(codes) if code and code < 0]
        if killed and all(found["kind"] == "internal" for _, found in told):
            name = signal.Signals(-codes[killed[0]]).name
            return self.error("signal", killed[0], f"ended by {name}", -codes[killed[0]]), RANK_LOST
        if told:
            rank, found = min(told, key=lambda entry: entry[1]["time"])
            code = found["exit_code"] if found["exit_code"] in (2, 3) else RANK_LOST
            return self.error(found["kind"], rank, found["message"]), code
        rank = next(rank for rank, code in enumerate(codes) if code)
        return self.error("exit", rank, f"ended with {codes[rank]}: {self.tail(rank)}"), RANK_LOST

    def stall(self):
        """Blames the rank with the least progress."""
        rank = min(range(self.count), key=lambda r: self.words[4 * r])
        return self.error("timeout", rank, f"no progress for {self.spec['timeout']:g} s (--timeout); "
                          f"{self.tail(rank)}"), RANK_LOST


def run(spec, interrupt):
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="ddpbench-peer-") as folder:
        launch = Launch(spec, folder)
        outcome.started = time.monotonic()
        try:
            launch.start()
            end = launch.watch(interrupt)
            codes = [process.poll() for process in launch.processes]
        finally:
            launch.end()
        outcome.total_s = time.monotonic() - outcome.started
        outcome.interrupted = end == "interrupted"
        if end == "failed":
            outcome.error, outcome.exit_code = launch.failure(codes)
        elif end == "stalled":
            outcome.error, outcome.exit_code = launch.stall()
        outcome.results = [result for _, result in launch.read("result")]
    return outcome
