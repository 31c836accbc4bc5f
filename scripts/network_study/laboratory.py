# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts of the study, and how ddpbench is run on them.

Ranks are started by one command outside of all hosts: over gloo by --hosts with a remote shell that
enters a host's namespaces, over mpi by mpirun with the same shell as its agent.
"""

import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "netlab"))
import lab  # noqa: E402

# What passes a link at once after a pause: about a millisecond's worth, so that it flatters nothing.
BURSTS = {"1gbit": "128kb", "100mbit": "16kb", "50mbit": "8kb", "25mbit": "4kb"}


class Failed(RuntimeError):
    """A command that did not end well."""


class Laboratory:
    """The hosts of a Network (plan.py), and a desk: one more, whose link has no bound, in whose network
    mpirun runs."""

    def __init__(self, folder, network):
        self.folder = pathlib.Path(folder)
        self.desk = network.hosts()
        rates = [network.slow_rate if host in network.slow else network.rate
                 for host in range(self.desk)]
        self.lab = lab.Lab(self.desk + 1, [*rates, None],
                           burst=BURSTS[network.slow_rate or network.rate],
                           congestion_control=network.congestion_control, mtu=network.mtu,
                           queue=network.queue)
        self.mpirun = network.mpirun
        self.shell = self.folder / "shell"
        self.lab.write_shell(self.shell)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lab.end()

    def hosts(self, numbers):
        return "--hosts=" + ",".join(f"{self.lab.address(i)}:1" for i in numbers)

    def command(self, program, hosts, backend, arguments):
        """The command line that runs `arguments` over `hosts`, [number]."""
        words = [program, self.hosts(hosts), f"--backend={backend}", *arguments]
        if backend != "mpi":
            return [*words, f"--remote-shell={self.shell}"]
        more = " ".join([*lab.mpirun_words(self.shell), *self.mpirun])
        desk = ["nsenter", "-t", str(self.lab.hosts[self.desk].pid), "-n"]
        return [*desk, *words, "--launcher=mpirun", f"--launcher-args={more}"]

    def run(self, command, within_s):
        """Runs it to its end. Raises Failed with what it said."""
        begin = time.monotonic()
        with open(self.folder / "said", "w+", encoding="utf-8") as said:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=said, text=True,
                                       preexec_fn=lab.die_with_parent)
            try:
                code = process.wait(within_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                code = process.wait(60)
            said.seek(0)
            if code != 0:
                raise Failed(f"exit code {code} of {' '.join(command)}:\n{said.read()[-4000:]}")
        return time.monotonic() - begin
