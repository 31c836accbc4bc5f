# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of processes at random moments: ranks, supervisors, whole jobs, joined worlds."""
import signal
import socket
import time

from trial import (AFTER_TIMEOUT_S, TIMEOUT_S, Miss, Skip, run_arguments, signal_group, signal_one)

ENDING = [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM]
ALL = [*ENDING, signal.SIGSTOP]


def wait_for(condition, process, at_most_s=30.0):
    """The first true value of `condition`; a Skip when the program ends before."""
    end = time.monotonic() + at_most_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        if not process.alive():
            raise Skip("the program ended before the fault")
        time.sleep(0.002)
    raise Miss(f"nothing to hit after {at_most_s} s")


def any_run(trial, *more, strategies=("single", "dp", "ddp", "ps")):
    """Starts a long run of a random strategy."""
    strategy = trial.random.choice(strategies)
    world = trial.random.randint(2, 3)
    arguments = run_arguments(strategy, world, 100000, "--epochs=1000", *more,
                              servers=trial.random.randint(1, 2))
    return strategy, trial.start(arguments)


def pick_rank(trial, process):
    """Waits a random time after the first rank has begun; then (pid, variables) of one."""
    wait_for(lambda: trial.ranks(process.pid), process)
    time.sleep(trial.random.choice([0, trial.random.uniform(0, 0.3), trial.random.uniform(0, 2)]))
    ranks = wait_for(lambda: trial.ranks(process.pid), process)
    return trial.random.choice(sorted(ranks.items()))


def expect_in_time(process, since, fault):
    limit_s = TIMEOUT_S + AFTER_TIMEOUT_S
    ended = process.wait(since + limit_s + 30 - time.monotonic())
    took_s = time.monotonic() - since
    if took_s > limit_s:
        raise Miss(f"{fault}: {took_s:.1f} s, more than {limit_s} s")
    return ended


def expect_blame(report, rank, is_reference, fault):
    error = report.get("error") or {}
    if report["status"] != "failed":
        raise Miss(f"{fault}: status {report['status']}")
    if is_reference and "reference" in error.get("message", ""):
        return
    if error.get("rank") != rank:
        raise Miss(f"{fault}: rank {rank} was hit, the report names {error.get('rank')}: "
                   f"{error.get('message', '')[:200]!r}")


def rank_hit(trial):
    """A rank, a server or the reference is killed, crashes, is asked to end, or is stopped."""
    hit_rank(trial, *any_run(trial))


def engine_rank_hit(trial):
    """The same over Gloo, alone or between hosts."""
    backend = trial.random.choice(["gloo", "shm+gloo"])
    strategy, process = any_run(trial, f"--backend={backend}", strategies=("ddp", "ps"))
    hit_rank(trial, f"{strategy} over {backend}", process)


def hit_rank(trial, strategy, process):
    pid, variables = pick_rank(trial, process)
    number = trial.random.choice(ALL)
    fault = f"{strategy}, {signal.Signals(number).name} to rank {variables['RANK']}"
    since = time.monotonic()
    if not signal_one(pid, number):
        process.wait()
        raise Skip("the rank had ended")
    ended = expect_in_time(process, since, fault)
    ended.expect(4)
    alone = variables["WORLD_SIZE"] == "1"
    expect_blame(trial.report(), int(variables["RANK"]), alone, fault)


def supervisor_hit(trial):
    """The process that the user started is killed, crashes, or is asked to end."""
    _, process = any_run(trial)
    wait_for(lambda: trial.ranks(process.pid), process)
    time.sleep(trial.random.uniform(0, 1))
    number = trial.random.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT,
                                  signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU])
    signal_one(process.pid, number)
    ended = expect_in_time(process, time.monotonic(), signal.Signals(number).name)
    ended.expect(128 + number if number in (signal.SIGKILL, signal.SIGSEGV) else 130)
    if trial.report()["status"] != "interrupted":
        raise Miss(f"status {trial.report()['status']} after {signal.Signals(number).name}")


def stopped_and_continued(trial, strategy, moment, send):
    """The report of a run that was stopped for longer than --timeout, `moment` seconds after its
    ranks had started; `send` says which of its processes. It must end well."""
    process = trial.start(run_arguments(strategy, 2, 64, "--epochs=40"))
    wait_for(lambda: trial.ranks(process.pid), process)
    time.sleep(moment)
    if not process.alive():
        raise Skip("the run was over")
    send(process.pid, signal.SIGSTOP)
    time.sleep(TIMEOUT_S + trial.random.uniform(0.5, 3))
    send(process.pid, signal.SIGCONT)
    process.wait().expect(0)
    report = trial.report()
    if report["status"] != "ok":
        raise Miss(f"status {report['status']}")
    return report


def joined_job_stopped(trial):
    """All processes of a world that a launcher started are stopped and go on."""
    _, started = joined_world(trial, trial.random.choice(["environment", "torchrun"]), 64,
                              "--epochs=40")
    wait_for(lambda: trial.ranks(started[0].pid), started[0])
    time.sleep(trial.random.uniform(0, 1.5))
    if not started[0].alive():
        raise Skip("the run was over")
    stopped = trial.processes()
    for pid in stopped:
        signal_one(pid, signal.SIGSTOP)
    time.sleep(TIMEOUT_S + trial.random.uniform(0.5, 3))
    for pid in stopped:
        signal_one(pid, signal.SIGCONT)
    for process in started:
        process.wait().expect(0)
    if trial.report()["status"] != "ok":
        raise Miss(f"status {trial.report()['status']}")


def job_stopped(trial):
    """Ctrl-Z for longer than --timeout, then fg: the run goes on."""
    if trial.random.random() < 1 / 3:
        joined_job_stopped(trial)
        return
    strategy = trial.random.choice(["single", "dp", "ddp", "ps"])
    stopped_and_continued(trial, strategy, trial.random.uniform(0, 1.5), signal_group)


def supervisor_stopped(trial):
    """The supervisor alone is stopped for longer than --timeout: the ranks go on, or wait for it."""
    strategy = trial.random.choice(["single", "dp", "ddp", "ps"])
    moment = trial.random.choice([0, trial.random.uniform(0, 0.2), trial.random.uniform(0, 1.5)])
    report = stopped_and_continued(trial, strategy, moment, signal_one)
    steps = report["runs"][0]["step"]["count"]
    expected = 40 * (64 if strategy == "single" else 32)  # of 512 images
    if steps != expected:
        raise Miss(f"{steps} steps, not {expected}")


def comm_hit(trial):
    """A rank of `ddpbench comm` is hit."""
    mode = trial.random.choice(["process", "thread"])
    process = trial.start(["comm", "--ranks=2", f"--mode={mode}", "--iterations=100000",
                           "--sizes=1M", f"--timeout={TIMEOUT_S}", "--json=report.json",
                           "--device=cpu"])
    pid, variables = pick_rank(trial, process)
    number = trial.random.choice(ENDING)
    fault = f"comm {mode}, {signal.Signals(number).name} to rank {variables['RANK']}"
    since = time.monotonic()
    if not signal_one(pid, number):
        raise Skip("the rank had ended")
    expect_in_time(process, since, fault).expect(4)
    report = trial.report()
    if report["error"] is None or report["error"]["rank"] != int(variables["RANK"]):
        raise Miss(f"{fault}: {report['error']}")


def tune_hit(trial):
    """`ddpbench tune` is interrupted, or one of its ranks is killed."""
    process = trial.start(["tune", "--gpus=2", "--config=c.json", "--device=cpu",
                           "--batch-size=8", "--steps=40", "--epochs=1", "--warmup-steps=2",
                           "--warmup-max-steps=2", "--verify-steps=0", "--data-dir=data",
                           f"--timeout={TIMEOUT_S}", "--json=report.json"])
    pid, _ = pick_rank(trial, process)
    if trial.random.random() < 0.5:
        signal_one(process.pid, signal.SIGTERM)
        process.wait().expect(130)
        expected = "interrupted"
    else:
        if not signal_one(pid, signal.SIGKILL):
            raise Skip("the rank had ended")
        process.wait().expect(4)
        expected = "failed"
    status = trial.report()["status"]
    if status != expected:
        raise Miss(f"status {status}, not {expected}")


def resume(trial):
    """A sweep is cut again and again, and resumed until it is done."""
    arguments = ["--strategy=single,ddp", "--gpus=2", "--config=c.json", "--device=cpu",
                 "--batch-size=8", "--steps=30", "--epochs=1", "--warmup-steps=1",
                 "--warmup-max-steps=1", "--verify-steps=1", "--data-dir=data",
                 "--repetitions=3", f"--timeout={TIMEOUT_S}"]
    process = trial.start([*arguments, "--json=report.json"])
    for _ in range(trial.random.randint(1, 3)):
        time.sleep(trial.random.uniform(0.2, 1.5))
        signal_one(process.pid, trial.random.choice([signal.SIGKILL, signal.SIGTERM]))
        process.wait()
        if not (trial.folder / "report.json").exists():  # it had not begun
            process = trial.start([*arguments, "--json=report.json"])
        else:
            process = trial.start([*arguments, "--resume=report.json"])
    process.wait().expect(0)
    report = trial.report()
    made = {(run["strategy"], run["repetition"]) for run in report["runs"]}
    if report["status"] != "ok" or len(report["runs"]) != 6 or len(made) != 6:
        raise Miss(f"{report['status']} with {len(report['runs'])} runs, {len(made)} different")
    losses = {run["strategy"]: set() for run in report["runs"]}
    for run in report["runs"]:
        losses[run["strategy"]].add(run["epochs"][0]["train_loss"])
    if any(len(found) != 1 for found in losses.values()):
        raise Miss(f"repetitions differ: {losses}")


def one_report(trial):
    """Four commands at once with one --json: one runs, the others are refused at once."""
    arguments = run_arguments("ddp", 2, 20)
    processes = [trial.start(arguments) for _ in range(4)]
    codes = sorted(process.wait().code for process in processes)
    if codes != [0, 2, 2, 2]:
        raise Miss(f"exit codes {codes}")
    if trial.report()["status"] != "ok":
        raise Miss("the report that was written is not ok")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def any_secret(trial):
    """Half the time a secret; else rank 0 makes one and hands it over by a file of this host."""
    (trial.folder / "tmp").mkdir()
    trial.results.add("tmp")
    variables = {"TMPDIR": str(trial.folder / "tmp")}
    if trial.random.random() < 0.5:
        variables["DDPBENCH_JOB_SECRET"] = f"{trial.random.getrandbits(128):032x}"
    return variables


def joined_world(trial, launcher, steps=100000, epochs="--epochs=1000"):
    """Starts the processes of a world as a launcher does: that of rank 0 supervises."""
    strategy = trial.random.choice(["ddp", "ps"])
    size = 3 if strategy == "ps" else trial.random.randint(2, 3)
    port = free_port()
    trial.ports.append(port)
    secret = any_secret(trial)
    ranks = []
    for rank in range(size):
        variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **secret}
        if launcher == "torchrun":
            variables |= {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": str(size),
                          "TORCHELASTIC_RESTART_COUNT": "0"}
        arguments = run_arguments(strategy, size, steps, epochs)
        arguments = [each for each in arguments if not each.startswith("--gpus=")]
        ranks.append(trial.start(arguments, variables))
    return strategy, ranks


def expect_signal_blame(trial, rank, number, is_reference, fault):
    report = trial.report()
    expect_blame(report, rank, is_reference, fault)
    if number != signal.SIGSTOP and report["error"]["signal"] != number:
        raise Miss(f"{fault}: the report names signal {report['error']['signal']}")


def joined_environment(trial):
    """A rank, or an agent, of a world is hit that plain variables describe."""
    joined(trial, "environment")


def joined_torchrun(trial):
    """The same with the variables of torchrun."""
    joined(trial, "torchrun")


def joined(trial, launcher):
    """A rank, or a process that the launcher started, is hit; the others must end and say which."""
    strategy, started = joined_world(trial, launcher)
    if trial.random.random() < 0.5:
        pid, variables = pick_rank(trial, started[0])
        number = trial.random.choice(ALL)
        rank, alone = int(variables["RANK"]), variables["WORLD_SIZE"] == "1"
        fault = f"{launcher}, {strategy}, {signal.Signals(number).name} to rank {rank}"
    else:
        # When the world's ranks are there, all agents are.
        wait_for(lambda: any(variables["WORLD_SIZE"] != "1"
                             for variables in trial.ranks(started[0].pid).values()), started[0])
        time.sleep(trial.random.uniform(0, 2))
        number, rank, alone = trial.random.choice(ENDING), trial.random.randrange(len(started)), False
        pid = started[rank].pid
        fault = f"{launcher}, {strategy}, {signal.Signals(number).name} to the process of rank {rank}"
    is_agent = pid in [process.pid for process in started]
    since = time.monotonic()
    if not signal_one(pid, number):
        raise Skip("the process had ended")
    codes = [expect_in_time(process, since, fault).code for process in started]
    asked = is_agent and number == signal.SIGTERM
    expected = [130 if asked else 4] + [0] * (len(started) - 1)
    if is_agent and not asked:
        if rank == 0:
            expected = [4] * len(started)  # the others say that it is gone
        expected[rank] = 128 + number
    if codes != expected:
        raise Miss(f"{fault}: exit codes {codes}, not {expected}")
    if asked or (is_agent and rank == 0):
        if trial.report()["status"] != "interrupted":
            raise Miss(f"{fault}: status {trial.report()['status']}")
    elif is_agent:
        expect_blame(trial.report(), rank, False, fault)
    else:
        expect_signal_blame(trial, rank, number, alone, fault)


def stall(trial):
    """A rank over Gloo stands still, for a time or for ever."""
    hit = trial.random.randint(0, 1)
    heals = trial.random.random() < 0.5
    fault = f"stall:rank={hit},step={trial.random.randint(1, 20)}"
    lasts_ms = trial.random.randint(1, 1000 * (TIMEOUT_S - 2)) if heals else 0
    if heals:
        fault += f",ms={lasts_ms}"
    strategy = trial.random.choice(["ddp", "ps"])
    process = trial.start(run_arguments(strategy, 2, 64, "--backend=gloo", f"--inject={fault}"))
    since = time.monotonic()
    wait_for(lambda: trial.ranks(process.pid) or not process.alive(), process)
    ended = process.wait()
    ended.expect(0 if heals else 4)
    status = trial.report()["status"]
    if status != ("ok" if heals else "failed"):
        raise Miss(f"{fault}: status {status}")
    took_s = time.monotonic() - since
    if heals and took_s < lasts_ms / 1000:
        raise Miss(f"{fault}: it did not strike: ended after {took_s:.1f} s")
    if not heals and took_s > 2 * TIMEOUT_S + AFTER_TIMEOUT_S:
        raise Miss(f"{fault}: ended after {took_s:.1f} s")
    if not heals:
        expect_blame(trial.report(), hit, False, fault)


def mpirun(trial):
    """A rank below mpirun is hit."""
    hit_below_mpirun(trial)


def mpirun_engine(trial):
    """The same where MPI moves the data."""
    hit_below_mpirun(trial, f"--backend={trial.random.choice(['mpi', 'shm+mpi'])}")


def hit_below_mpirun(trial, *more):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", trial.program]
    arguments = [each for each in run_arguments("ddp", 2, 100000, "--epochs=1000", *more)
                 if not each.startswith("--gpus=")]
    process = trial.start([*command[1:], *arguments], any_secret(trial), program=command[0])
    pid, variables = pick_rank(trial, process)
    number = trial.random.choice(ALL)
    fault = f"mpirun, {signal.Signals(number).name} to rank {variables['RANK']}"
    since = time.monotonic()
    if not signal_one(pid, number):
        raise Skip("the rank had ended")
    ended = expect_in_time(process, since, fault)
    if ended.code == 0:
        raise Miss(f"{fault}: mpirun says that all is well")
    expect_signal_blame(trial, int(variables["RANK"]), number, variables["WORLD_SIZE"] == "1", fault)
