# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that start without standard descriptors, or under limits of the system."""
import os
import resource
import signal
import time

from trial import TIMEOUT_S, Miss, Skip, run_arguments

NOBODY = 65533


def any_small_run(trial, *more):
    strategy = trial.random.choice(["single", "dp", "ddp", "ps"])
    return run_arguments(strategy, 2, 4, *more)


def expect_report_or_words(trial, ended, *codes):
    """A documented code; a valid report, or words where there was none to write yet."""
    ended.expect(*codes)
    if ended.code == 0:
        if trial.report()["status"] != "ok":
            raise Miss("exit 0 with a report that is not ok")
    elif (trial.folder / "report.json").exists():
        if trial.report()["status"] == "ok":
            raise Miss(f"exit {ended.code} with a report that is ok")
    elif "ddpbench: " not in ended.err:
        raise Miss(f"exit {ended.code} without a word")


def closed_descriptors(trial):
    """Some of the descriptors 0, 1 and 2 are closed."""
    which = trial.random.randrange(1, 8)

    def close():
        for descriptor in range(3):
            if which >> descriptor & 1:
                os.close(descriptor)

    is_comm = trial.random.random() < 0.2
    arguments = (["comm", "--ranks=2", "--iterations=5", "--sizes=1K", "--device=cpu",
                  f"--timeout={TIMEOUT_S}", "--json=report.json"] if is_comm
                 else any_small_run(trial))
    ended = trial.run(arguments, preexec_fn=close)
    ended.expect(0)
    report = trial.report()
    if report["status"] != "ok":
        raise Miss(f"status {report['status']}")
    for run in [] if is_comm else report["runs"]:
        if run["verification"]["status"] not in ("passed", "reference"):
            raise Miss(f"verification {run['verification']['status']}")


def limited(trial, which, value, codes, as_nobody=False):
    def limit():
        resource.setrlimit(which, (value, value))
        if as_nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    if as_nobody:
        os.chmod(trial.folder, 0o777)
    begin = time.monotonic()
    ended = trial.run(any_small_run(trial), preexec_fn=limit)
    if time.monotonic() - begin > 30 + TIMEOUT_S:
        raise Miss(f"took {ended.seconds:.0f} s")
    expect_report_or_words(trial, ended, *codes)


def open_files(trial):
    """ulimit -n"""
    # The dynamic loader needs descriptors, too, and says so with 127.
    limited(trial, resource.RLIMIT_NOFILE, trial.random.randint(6, 64), (0, 2, 3, 4, 127))


def address_space(trial):
    """ulimit -v"""
    limited(trial, resource.RLIMIT_AS, trial.random.randint(100, 1200) << 20, (0, 2, 3, 4, 127))


def file_size(trial):
    """ulimit -f"""
    limited(trial, resource.RLIMIT_FSIZE, trial.random.choice([1000, 1 << 16, 1 << 20, 1 << 24]),
            (0, 2, 3, 4))


def processor_time(trial):
    """ulimit -t: the kernel ends a process by SIGXCPU or SIGKILL."""
    limited(trial, resource.RLIMIT_CPU, trial.random.randint(1, 2),
            (0, 4, 130, 128 + signal.SIGKILL))


def processes(trial):
    """ulimit -u of a user who has no other processes."""
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    limited(trial, resource.RLIMIT_NPROC, trial.random.randint(1, 12), (0, 2, 3, 4), True)
