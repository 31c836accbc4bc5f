# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Training jobs over hosts of a laboratory (lab.py), by each kind of launcher.

A job has a laboratory and a folder of its own, so several run at once.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import lab

DDPBENCH = ""
PORT = 29500
SECRET = "0123456789abcdef0123456789abcdef"
# Fits what a rank over the network sends in about eight steps: the data set does not travel.
AT_WORK_BYTES = 2_000_000


def mpirun():
    """Its path: it takes what is above its folder for its prefix, and refuses "/"."""
    found = shutil.which("mpirun")
    return found and os.path.join(os.path.realpath(os.path.dirname(found)), "mpirun")


class Ended:
    """What a process of the job said, and how it ended."""

    def __init__(self, code, text):
        self.code, self.text = code, text


class Process:
    """A process of a job, which says all into a file: a pipe that nobody reads would hold it up."""

    def __init__(self, start, path):
        self.path = path
        with open(path, "w", encoding="utf-8") as said:
            self.popen = start(stdout=said, stderr=said, stdin=subprocess.DEVNULL)

    def said(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, within_s):
        try:
            return Ended(self.popen.wait(max(within_s, 0.1)), self.said())
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise AssertionError(f"not ended after {within_s:.0f} s: {self.said()[-2000:]}") from None


class Job:
    """Rank r on host places[r]. `launcher`: plain (variables; a process a rank, in a folder for each
    host), hosts (--hosts), mpirun (plain mpirun), supervised-mpirun (--launcher=mpirun). All but
    plain are one process, which runs on the desk: a host beside the others, or `at` if given."""

    def __init__(self, launcher, places, arguments, at=None, config=None):
        self.launcher, self.places, self.arguments = launcher, places, list(arguments)
        self.folder = tempfile.mkdtemp(prefix="netlab-")
        self.count = max(places) + 1
        self.at = self.count if at is None else at
        self.lab = lab.Lab(self.count + 1)
        self.processes = []
        self.shell = os.path.join(self.folder, "shell")
        self.lab.write_shell(self.shell)
        os.mkdir(os.path.join(self.folder, "tmp"))
        for host in range(self.count + 1):
            os.mkdir(self.folder_of(host))
        self.config = config or {"model": "lenet5", "dataset": {"name": "mnist"}, "batch_size": 8}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.end()
        for process in self.processes:
            process.popen.wait()
        shutil.rmtree(self.folder)

    def folder_of(self, host):
        return os.path.join(self.folder, f"h{host}")

    def start(self):
        for host in range(self.count + 1):
            with open(os.path.join(self.folder_of(host), "c.json"), "w", encoding="utf-8") as file:
                json.dump(self.config, file)
        arguments = ["--config=c.json", f"--data-dir={self.folder}", "--json=report.json",
                     *self.arguments]
        if self.launcher == "plain":
            variables = lab.rank_variables(self.lab, self.places, SECRET)
            for rank, host in enumerate(self.places):
                self._start(host, [DDPBENCH, *arguments], variables[rank])
            return self
        variables = {"DDPBENCH_JOB_SECRET": SECRET, "MASTER_ADDR": self.lab.address(self.places[0]),
                     "MASTER_PORT": str(PORT)}
        more = lab.mpirun_words(self.shell)
        if self.launcher == "mpirun":
            handed_on = [word for name in variables for word in ("-x", name)]
            self._start(self.at, [mpirun(), "-n", str(len(self.places)), "--host", self._slots(),
                                  *handed_on, *more, DDPBENCH, *arguments], variables)
            return self
        workers = len(self.places)
        if "--strategy=ps" in arguments:
            workers -= 1
        command = [DDPBENCH, *arguments, f"--hosts={self._slots()}", f"--gpus={workers}"]
        if self.launcher == "hosts":
            self._start(self.at, [*command, f"--remote-shell={self.shell}"])
        else:
            self._start(self.at, [*command, "--launcher=mpirun",
                                  f"--launcher-args={' '.join(more)}"])
        return self

    def _slots(self):
        hosts = sorted(set(self.places), key=self.places.index)
        return ",".join(f"{self.lab.address(h)}:{self.places.count(h)}" for h in hosts)

    def _start(self, host, command, variables=None):
        path = os.path.join(self.folder, f"said.{len(self.processes)}")
        environment = {"TMPDIR": os.path.join(self.folder, "tmp"), **(variables or {})}
        self.processes.append(Process(
            lambda **files: self.lab.start(host, command, environment,
                                           cwd=self.folder_of(host), **files), path))

    def said(self):
        return "\n".join(process.said()[-3000:] for process in self.processes)

    def ranks(self):
        """{rank: pid} of those that run."""
        found = {}
        for host in set(self.places):
            for pid in self.lab.processes(host) + self.lab.processes(host, "exe"):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        block = file.read().decode("utf-8", "replace").split("\0")
                except OSError:
                    continue
                for item in block:
                    name, _, value = item.partition("=")
                    if name == ("OMPI_COMM_WORLD_RANK" if "mpirun" in self.launcher else "RANK"):
                        found[int(value)] = pid
        return found

    def await_work(self, within_s=90):
        """Waits until all ranks train, and rank 0 has heard of it."""
        end = time.monotonic() + within_s
        while not all(self.lab.bytes_sent(host) > AT_WORK_BYTES for host in set(self.places)):
            ended = [one for one in self.processes if one.popen.poll() is not None]
            if ended or time.monotonic() > end:
                raise AssertionError(f"the ranks did not come to work: {self.said()}")
            time.sleep(0.05)
        time.sleep(1.5)
        return self

    def signal_rank(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def signal(self, number):
        """To the one process of the job; not to what brings it into its namespaces."""
        name = "mpirun" if self.launcher == "mpirun" else "ddpbench"
        for pid in self.lab.processes(self.at, name):
            os.kill(pid, number)

    def finish(self, gone=(), within_s=40):
        """Waits for all processes but those of ranks that are gone; [process] and the seconds."""
        begin = time.monotonic()
        ended = [process.wait(begin + within_s - time.monotonic())
                 for number, process in enumerate(self.processes) if number not in gone]
        return ended, time.monotonic() - begin

    def report(self, host=None):
        """That of the one process, or of rank 0's host, or of another."""
        default = self.places[0] if self.launcher == "plain" else self.at
        folder = self.folder_of(default if host is None else host)
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def left(self, within_s=5):
        """What is left after so long, in words."""
        end = time.monotonic() + within_s
        while True:
            words = [f"h{host}: {each}" for host in range(self.count + 1)
                     for each in self.lab.left(host)]
            words += [f"TMPDIR: {name}" for name in os.listdir(os.path.join(self.folder, "tmp"))]
            if not words or time.monotonic() > end:
                return words
            time.sleep(0.05)
