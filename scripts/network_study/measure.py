# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the reports: a folder for each network, a report for each command, and in conditions.json
how busy the machine was when each was made."""

import json
import pathlib
import time

HERE = pathlib.Path(__file__).resolve().parent
# A command waits for a machine of which less is in use, but not for ever, and is repeated where more
# is afterwards.
MOST_OTHER = 0.15
TRIES = 2
LOOK_S = 1.0
WITHIN_S = 900


def settings(model, steps):
    return {"model": str(HERE / f"{model}.json"), "dataset": {"name": "synthetic"},
            "global_batch_size": 256, "epochs": 1, "steps": steps, "warmup_steps": 1,
            "warmup_max_steps": 1, "verify_steps": 0, "timeout": 120}


def busy_share(root="/"):
    """The share of all processor time that was used while this looked."""
    def read():
        with open(pathlib.Path(root) / "proc/stat", encoding="ascii") as file:
            times = [int(word) for word in file.readline().split()[1:9]]
        return sum(times), sum(times) - times[3] - times[4]
    all_before, busy_before = read()
    time.sleep(LOOK_S)
    all_after, busy_after = read()
    return (busy_after - busy_before) / max(1, all_after - all_before)


def await_quiet(patience_s, look=busy_share, clock=time.monotonic):
    """Returns the share of the machine that is in use, once it is small or patience ends."""
    begin = clock()
    share = look()
    while share > MOST_OTHER and clock() - begin < patience_s:
        share = look()
    return share


class Study:
    def __init__(self, folder, program, steps, patience_s, log=print):
        self.folder = pathlib.Path(folder).resolve()
        self.program = str(pathlib.Path(program).resolve())
        self.steps = steps
        self.patience_s = patience_s
        self.log = log
        self.folder.mkdir(parents=True, exist_ok=True)

    def report(self, network, command):
        return self.folder / network.key / f"{command.name}.json"

    def missing(self, network):
        return [command for command in network.commands
                if not self.report(network, command).exists()]

    def make(self, network):
        """Makes the reports of a network that are not there yet."""
        import laboratory  # needs root and Linux; the document does not

        missing = self.missing(network)
        if not missing:
            return
        (self.folder / network.key).mkdir(exist_ok=True)
        for model in {command.model for command in missing}:
            path = self.folder / f"{model}-settings.json"
            path.write_text(json.dumps(settings(model, self.steps)), encoding="utf-8")
        with laboratory.Laboratory(self.folder, network) as made:
            for command in missing:
                self._make_one(made, network, command)

    def _make_one(self, made, network, command):
        """Keeps the attempt that was disturbed least."""
        least = None
        for attempt in range(1, (TRIES if self.patience_s else 1) + 1):
            before = await_quiet(self.patience_s)
            wall_s, text = self._run(made, network, command)
            after = busy_share()
            self.log(f"{network.key}/{command.name}: {wall_s:.0f} s; machine in use "
                     f"{before:.0%} before, {after:.0%} after")
            if least is None or before + after < least:
                least = before + after
                self._keep(network, command, text,
                           {"before": round(before, 3), "after": round(after, 3),
                            "wall_s": round(wall_s, 1), "attempt": attempt})
            if max(before, after) <= MOST_OTHER:
                return

    def _run(self, made, network, command):
        partial = self.report(network, command).with_suffix(".part")
        arguments = [f"--config={self.folder / command.model}-settings.json",
                     "--gpus=" + ",".join(str(count) for count in command.workers),
                     *command.arguments, f"--json={partial}", "--force"]
        line = made.command(self.program, command.hosts(), command.backend, arguments)
        wall_s = made.run(line, WITHIN_S)
        text = partial.read_text(encoding="utf-8")
        partial.unlink()
        return wall_s, text

    def _keep(self, network, command, text, conditions):
        self.report(network, command).write_text(text, encoding="utf-8")
        path = self.folder / "conditions.json"
        notes = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        notes[f"{network.key}/{command.name}"] = conditions
        path.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
