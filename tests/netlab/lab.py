#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine that share nothing but a network: a laboratory for ranks on several hosts.

    tests/netlab/lab.py HOSTS [--rate=1gbit] -- COMMAND...

runs COMMAND once on each host at the same time, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT as a launcher of one rank a host sets them, and exits with the first failure's code.

A host is a process that holds namespaces: network, PID, mount, IPC and host name, and a /dev/shm of
its own. Each has one veth pair to a bridge, which lies in a network namespace of its own. Namespaces have no name and live as
long as their processes, and these end with the process that made the laboratory, also when that is
killed: nothing is left, and any number of laboratories can run at once. Needs root.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys

ADDRESS = "10.77.0.{}"
SET_UP_S = 10
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
TCP_LISTEN = "0A"  # in /proc/net/tcp
SHELL = """#!/bin/sh
host=$1
shift
case $host in
{cases}*) echo "no way to $host" >&2; exit 255;;
esac
exec nsenter -t $pid -n -p -m -i -u --wd=. taskset -c $core sh -c "$*"
"""


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def reason_to_skip():
    """Why there can be no laboratory here; empty: there can."""
    missing = [tool for tool in ("ip", "unshare", "nsenter", "tc") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    try:
        with Lab(1):
            return ""
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return f"no network namespaces here: {error}"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SET_UP_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def mpirun_words(shell):
    """Arguments of mpirun (Open MPI) with which its ranks talk by TCP alone, over the links of the
    hosts. `shell`: what write_shell() made."""
    return ["--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", str(shell),
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0"]


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")[:120].strip()
    except OSError:
        return "ended"


class Holder:
    """A process in new namespaces, which ends with this one. `pid` is that of its first child.
    `prepare`: what a shell does there first."""

    def __init__(self, *namespaces, prepare="true"):
        # The read end tells when the shell has done that, so that all namespaces are there.
        self.process = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "sh", "-c",
             f"{prepare} && echo up && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        if self.process.stdout.readline() != "up\n":
            raise RuntimeError(f"unshare: {self.process.stderr.read().strip()}")
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as children:
            self.pid = int(children.read().split()[0])

    def end(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Lab:
    """`count` hosts, each with the address address(i) and the name h0, h1, ...; `rate` (as tc writes
    it: 1gbit) bounds each link in both directions, or that of each host, [host] (None: no bound).
    `burst`: what may pass at once after a pause; a large one flatters short transfers. `ahead_s`: by
    how many whole seconds the clock of each host is ahead, [host]; in time namespaces, which older
    kernels lack. `congestion_control`: the TCP algorithm of all hosts, as bbr; None: the machine's.
    `mtu`: bytes of an Ethernet frame's contents. `queue`: how long a frame may wait before a link; what
    would wait longer is lost."""

    def __init__(self, count, rate=None, ahead_s=None, burst="128kb", congestion_control=None,
                 mtu=1500, queue="20ms"):
        self.switch = None
        self.ahead_s = ahead_s
        self.burst = burst
        self.mtu, self.queue = str(mtu), queue
        self.congestion_control = congestion_control
        self.hosts = []
        try:
            self.switch = Holder("--net")
            self._switch("sh", "-ec", "ip link add br0 type bridge; ip link set br0 up")
            for i in range(count):
                self._add_host(i, rate[i] if isinstance(rate, (list, tuple)) else rate)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def address(self, host):
        return ADDRESS.format(host + 1)

    def _switch(self, *command):
        run("nsenter", "-t", str(self.switch.pid), "-n", *command)

    def _add_host(self, i, rate):
        clock = ["--time", "--monotonic", str(self.ahead_s[i])] if self.ahead_s else []
        holder = Holder("--net", "--pid", "--mount-proc", "--mount", "--ipc", "--uts", *clock,
                        prepare=f"hostname h{i} && mount -t tmpfs -o mode=1777 lab /dev/shm")
        self.hosts.append(holder)
        run("ip", "link", "add", "eth0", "netns", str(holder.pid), "type", "veth", "peer", "name",
            f"p{i}", "netns", str(self.switch.pid))
        self._switch("ip", "link", "set", f"p{i}", "mtu", self.mtu, "master", "br0", "up")
        inside = ("nsenter", "-t", str(holder.pid), "-n")
        run(*inside, "sh", "-ec", f"ip link set lo up; ip link set eth0 mtu {self.mtu} up; "
            f"ip addr add {self.address(i)}/24 dev eth0")
        if self.congestion_control:
            self._choose_congestion_control(i, inside)
        if rate is None:
            return
        shaped = ("root", "tbf", "rate", rate, "burst", self.burst, "latency", self.queue)
        run(*inside, "tc", "qdisc", "add", "dev", "eth0", *shaped)
        self._switch("tc", "qdisc", "add", "dev", f"p{i}", *shaped)

    def _choose_congestion_control(self, i, inside):
        """As the host's default where the kernel permits that in a namespace, which depends on the
        machine's tcp_allowed_congestion_control, and else for the route to the other hosts."""
        name = self.congestion_control
        try:
            run(*inside, "sh", "-c",
                f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control")
        except RuntimeError:
            run(*inside, "ip", "route", "change", ADDRESS.format("0/24"), "dev", "eth0", "proto",
                "kernel", "scope", "link", "src", self.address(i), "congctl", name)

    def start(self, host, command, environment=None, only_network=False, **options):
        """Starts `command` on a host, on one core of the machine in turn, and returns it.
        `only_network`: it has the host's network and else is outside, where it can use the shell of
        write_shell()."""
        cores = sorted(os.sched_getaffinity(0))
        holder = str(self.hosts[host].pid)
        spaces = ["-p", "-m", "-i", "-u", *(["-T"] if self.ahead_s else [])]
        return subprocess.Popen(
            ["nsenter", "-t", holder, "-n", *([] if only_network else spaces), "--wd=.", "taskset",
             "-c", str(cores[host % len(cores)]), *command],
            env={**os.environ, **(environment or {})}, text=True, preexec_fn=die_with_parent,
            **options)

    def write_shell(self, path):
        """Makes the program `path`, a remote shell: PATH ADDRESS WORDS... gives the words to a shell
        on that host. A host is one core of the machine: hosts take them in turn."""
        cores = sorted(os.sched_getaffinity(0))
        cases = "".join(f"{self.address(i)}) pid={host.pid} core={cores[i % len(cores)]};;\n"
                        for i, host in enumerate(self.hosts))
        with open(path, "w", encoding="utf-8") as file:
            file.write(SHELL.replace("{cases}", cases))
        os.chmod(path, 0o700)

    def processes(self, host, name="ddpbench", space="pid"):
        """The processes of that name on a host, as this PID namespace numbers them. None: all but
        those that hold the host. `space`: net also finds those that have only its network."""
        found = []
        holder = self.hosts[host]
        try:
            own = os.readlink(f"/proc/{holder.pid}/ns/{space}")
        except FileNotFoundError:
            return found  # the host has ended, and all of its processes with it
        for entry in os.listdir("/proc"):
            try:
                if not entry.isdigit() or os.readlink(f"/proc/{entry}/ns/{space}") != own:
                    continue
                with open(f"/proc/{entry}/stat", encoding="utf-8") as stat:
                    comm, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
                # What a host's first process inherits it never awaits: such have ended, too.
                if name in (comm, None) and not rest.startswith(" Z"):
                    found.append(int(entry))
            except OSError:
                pass  # it has ended
        return sorted(set(found) - {holder.pid, holder.process.pid})

    def listening_ports(self, host):
        """The TCP ports at which something on the host listens."""
        found = set()
        for kind in ("tcp", "tcp6"):
            for line in self._lines(host, f"net/{kind}")[1:]:
                _, address, _, state = line.split()[:4]
                if state == TCP_LISTEN:
                    found.add(int(address.rsplit(":", 1)[1], 16))
        return sorted(found)

    def bytes_sent(self, host):
        """What has left the host on its link."""
        for line in self._lines(host, "net/dev"):
            name, _, counters = line.partition(":")
            if name.strip() == "eth0":
                return int(counters.split()[8])
        return 0

    def _lines(self, host, name):
        """Of a file in the /proc of the process that holds the host; none where it has ended."""
        try:
            with open(f"/proc/{self.hosts[host].pid}/{name}", encoding="ascii") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def shared_memory(self, host):
        """The names in the host's /dev/shm."""
        try:
            return sorted(os.listdir(f"/proc/{self.hosts[host].pid}/root/dev/shm"))
        except FileNotFoundError:
            return []

    def left(self, host):
        """What jobs have left on the host, in words; empty: nothing."""
        words = [f"process {pid} ({command_of(pid)})"
                 for pid in self.processes(host, None, "net")]
        words += [f"a socket that listens at port {port}" for port in self.listening_ports(host)]
        return words + [f"/dev/shm/{name}" for name in self.shared_memory(host)]

    def cut(self, host):
        """Takes a host's link away, as a pulled cable does."""
        self._switch("ip", "link", "set", f"p{host}", "down")

    def heal(self, host):
        """Puts the cable back."""
        self._switch("ip", "link", "set", f"p{host}", "up")

    def end_host(self, host):
        """Ends all processes of a host at once."""
        self.hosts[host].end()

    def end(self):
        for holder in [*self.hosts, *([self.switch] if self.switch else [])]:
            holder.end()


def rank_variables(lab, hosts, secret, port=29500):
    """The variables of a world whose rank r is on host hosts[r]: [rank]."""
    ranks = []
    for rank, host in enumerate(hosts):
        variables = {"RANK": str(rank), "LOCAL_RANK": str(hosts[:rank].count(host)),
                     "WORLD_SIZE": str(len(hosts)), "MASTER_ADDR": lab.address(hosts[0]),
                     "MASTER_PORT": str(port)}
        if secret:
            variables["DDPBENCH_JOB_SECRET"] = secret
        ranks.append(variables)
    return ranks


def main(arguments):
    if "--" not in arguments:
        sys.exit(__doc__)
    words, command = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    rate = next((word.split("=", 1)[1] for word in words if word.startswith("--rate=")), None)
    count = int(next(word for word in words if not word.startswith("-")))
    with Lab(count, rate) as lab:
        variables = rank_variables(lab, list(range(count)), os.urandom(16).hex())
        started = [lab.start(i, command, variables[i]) for i in range(count)]
        codes = [process.wait() for process in started]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
