# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs over hosts of a laboratory (lab.py), by each kind of launcher: training, or `comm`.

A job has a laboratory and a folder of its own, so several run at once.
"""

import functools
import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

import digits
import lab

DDPBENCH = ""
PORT = 29500
FORK = multiprocessing.get_context("fork")
# How many jobs there are at once, in all tests of this program: most wait for a deadline. Only so many
# come to work at once: that takes processor time, and ranks have seconds to meet.
AT_ONCE = FORK.Semaphore(6)
STARTING = FORK.Semaphore(2)
# Fits what a rank over the network sends in about eight steps: the data set does not travel.
AT_WORK_BYTES = 2_000_000


def mpirun():
    """Its path: it takes what is above its folder for its prefix, and refuses "/"."""
    found = shutil.which("mpirun")
    return found and os.path.join(os.path.realpath(os.path.dirname(found)), "mpirun")


@functools.cache
def has_mpi():
    listed = subprocess.run([DDPBENCH, "info"], capture_output=True, text=True, timeout=60).stdout
    return mpirun() is not None and "Open MPI" in listed


def in_processes(calls):
    """Starts each in a process of its own; yields what they return, in their order."""
    def answer_to(call, answer):
        lab.die_with_parent()
        answer.send(call())

    started = []
    for call in calls:
        mine, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=answer_to, args=(call, theirs))
        process.start()
        theirs.close()
        started.append((process, mine))
    for process, answer in started:
        try:
            yield answer.recv()
        except EOFError:
            yield None  # it was killed
        process.join()


def at_once(test, cases, trial):
    """Calls trial(*case) for all cases, each in a process of its own."""
    def fault_of(case):
        try:
            trial(*case)
            return ""
        except BaseException:  # pylint: disable=broad-except
            return traceback.format_exc()

    faults = in_processes([functools.partial(fault_of, case) for case in cases])
    for case, said in zip(cases, faults):
        with test.subTest(" ".join(map(str, case))):
            test.assertTrue(said == "", said or "its process was killed")


class AtOnce:
    """A runner of unittest: all tests at once, each in a process of its own; what they say comes in
    their order. `limit`: so many at a time, where they do not wait for their jobs."""

    def __init__(self, limit=1000):
        self.free = FORK.Semaphore(limit)

    def run(self, suite):
        result = unittest.TestResult()
        tests = list(self._each(suite))
        calls = [functools.partial(self._run_one, test) for test in tests]
        for test, answer in zip(tests, in_processes(calls)):
            is_good, said = answer or (False, f"{test}: its process was killed")
            print(said, file=sys.stderr, flush=True)
            result.startTest(test)
            if not is_good:
                result.failures.append((test, said))
        return result

    def _each(self, suite):
        for each in suite:
            if isinstance(each, unittest.TestSuite):
                yield from self._each(each)
            else:
                yield each

    def _run_one(self, test):
        with self.free:
            said = io.StringIO()
            done = unittest.TextTestRunner(stream=said, verbosity=2).run(test)
            return done.wasSuccessful(), said.getvalue()


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
    host), hosts (--hosts), mpirun (mpirun itself), supervised-mpirun (--launcher=mpirun). All but
    plain are one process, at the desk: it has the network of a host beside the others.
    `command`: comm, or none, which trains. `beside`: a job whose laboratory this one shares. `disk`: the size of the folder in which rank 0
    is, on its host (plain, mpirun). `variables`: more of all processes. `visitors`: how many hosts
    more there are, with nothing on them, from number `visitor` on."""

    def __init__(self, launcher, places, arguments, command="", beside=None, disk=None,
                 variables=None, visitors=0):
        self.launcher, self.places, self.arguments = launcher, places, list(arguments)
        self.command = command
        self.owns_lab = beside is None
        self.is_starting = self.owns_lab
        if self.owns_lab:
            AT_ONCE.acquire()
            STARTING.acquire()
        self.folder = tempfile.mkdtemp(prefix="netlab-")
        self.desk = max(places) + 1
        self.visitor = self.desk + 1
        self.home = self.folder_of(places[0] if launcher == "plain" else self.desk)
        self.secret = os.urandom(16).hex()
        self.variables = variables or {}
        self.disk = disk
        self.processes = []
        self.lab = beside.lab if beside else None
        try:
            self._prepare(self.visitor + visitors)
        except BaseException:
            self.__exit__()
            raise

    def _prepare(self, hosts):
        if self.owns_lab:
            self.lab = lab.Lab(hosts)
        self.shell = os.path.join(self.folder, "shell")
        self.lab.write_shell(self.shell)
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        for host in range(self.desk + 1):
            os.mkdir(self.folder_of(host))
        if self.disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={self.disk}", "lab", self.home]
            if self.lab.start(self.places[0], mount).wait() != 0:
                raise RuntimeError("a small file system cannot be mounted")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.owns_lab and self.lab:
                self.lab.end()
            for process in self.processes:
                process.popen.kill()
                process.popen.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            self._leave_room()

    def _leave_room(self):
        self._let_others_start()
        if self.owns_lab:
            AT_ONCE.release()

    def _let_others_start(self):
        if self.is_starting:
            self.is_starting = False
            STARTING.release()

    def folder_of(self, host):
        return os.path.join(self.folder, f"h{host}")

    def _words(self):
        """What follows the program's name."""
        if self.command:
            return [self.command, "--json=report.json", *self.arguments]
        with open(os.path.join(self.folder, "c.json"), "w", encoding="utf-8") as file:
            # Long epochs: at the end of one, ranks wait in a barrier, where few faults shall hit them.
            json.dump({"model": "lenet5", "dataset": {"name": "mnist"}, "batch_size": 1,
                       "lr": 0.001}, file)
        digits.write_digits(os.path.join(self.folder, "mnist"))
        return [f"--config={self.folder}/c.json", f"--data-dir={self.folder}",
                "--json=report.json", *self.arguments]

    def start(self):
        arguments = self._words()
        if self.launcher == "plain":
            variables = lab.rank_variables(self.lab, self.places, self.secret)
            for rank, host in enumerate(self.places):
                self._start(host, [DDPBENCH, *arguments], variables[rank])
            return self
        more = lab.mpirun_words(self.shell)
        if self.launcher == "mpirun":
            variables = {"DDPBENCH_JOB_SECRET": self.secret, "MASTER_PORT": str(PORT),
                         "MASTER_ADDR": self.lab.address(self.places[0])}
            handed_on = [word for name in variables for word in ("-x", name)]
            # Now and then it locks up in its own end. Not in the foreground, timeout hands a signal to
            # mpirun and then to its group, and an mpirun that gets two drops its ranks at once.
            limit = ["timeout", "--foreground", "--signal=KILL", "60"]
            self._start(self.desk, [*limit, mpirun(), "-n", str(len(self.places)), "--host",
                                    self._slots(), *handed_on, *more, DDPBENCH, *arguments],
                        variables)
            return self
        workers = len(self.places) - ("--strategy=ps" in arguments)
        command = [DDPBENCH, *arguments, f"--hosts={self._slots()}", f"--gpus={workers}"]
        if self.launcher == "hosts":
            self._start(self.desk, [*command, f"--remote-shell={self.shell}"])
        else:
            self._start(self.desk, [*command, "--launcher=mpirun",
                                    f"--launcher-args={' '.join(more)}"])
        return self

    def _slots(self):
        hosts = sorted(set(self.places), key=self.places.index)
        return ",".join(f"{self.lab.address(h)}:{self.places.count(h)}" for h in hosts)

    def _start(self, host, command, variables=None):
        path = os.path.join(self.folder, f"said.{len(self.processes)}")
        environment = {"TMPDIR": self.temporary, **self.variables, **(variables or {})}
        folder = self.folder_of(host)
        if self.disk:  # what is mounted is seen from within only
            command = ["sh", "-c", 'cd "$0" && exec "$@"', folder, *command]
        self.processes.append(Process(
            lambda **files: self.lab.start(host, command, environment,
                                           only_network=host == self.desk, cwd=folder, **files),
            path))

    def said(self):
        return "\n".join(process.said()[-3000:] for process in self.processes)

    def ranks(self, agents=False):
        """{rank: pid} of those of this job that run, or of the agents that variables describe."""
        found = {}
        for host in set(self.places):
            for pid in self.lab.processes(host) + self.lab.processes(host, "exe"):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        block = file.read().decode("utf-8", "replace").split("\0")
                except OSError:
                    continue
                variables = dict(item.split("=", 1) for item in block if "=" in item)
                is_wanted = ("DDPBENCH_RUN_FD" in variables) != agents and "RANK" in variables
                if is_wanted and variables.get("TMPDIR") == self.temporary:
                    found[int(variables["RANK"])] = pid
        return found

    def await_work(self, within_s=90):
        """Waits until all ranks are at work, and rank 0 has heard of it."""
        end = time.monotonic() + within_s
        while not all(self.lab.bytes_sent(host) > AT_WORK_BYTES for host in set(self.places)):
            ended = [one for one in self.processes if one.popen.poll() is not None]
            if ended or time.monotonic() > end:
                raise AssertionError(f"the ranks did not come to work: {self.said()}")
            time.sleep(0.05)
        self._let_others_start()
        time.sleep(1.5)
        return self

    def signal_rank(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def signal(self, number):
        """To the one process of the job: what brings it into the desk's network becomes it."""
        self.processes[0].popen.send_signal(number)

    def finish(self, gone=(), within_s=40):
        """Waits for all processes but those of ranks that are gone; [process] and the seconds."""
        self._let_others_start()
        begin = time.monotonic()
        ended = [process.wait(begin + within_s - time.monotonic())
                 for number, process in enumerate(self.processes) if number not in gone]
        return ended, time.monotonic() - begin

    def report(self):
        """That of the one process, or of rank 0's."""
        with open(os.path.join(self.home, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def left(self, without=(), within_s=5):
        """What is left after so long, in words, but for hosts that are gone and can clear nothing."""
        end = time.monotonic() + within_s
        while True:
            words = [f"h{host}: {each}" for host in range(self.desk + 1)
                     for each in self.lab.left(host)]
            words += [f"TMPDIR/{name}" for name in os.listdir(self.temporary)
                      if not any(name.startswith(f"ompi.h{host}.") for host in without)]
            if not words or time.monotonic() > end:
                return words
            time.sleep(0.05)
