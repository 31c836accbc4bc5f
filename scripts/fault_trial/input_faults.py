# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated files: reports, configurations, networks, data sets and weights."""
import gzip
import json
import re

from trial import Miss, run_arguments

# One mutated file in so many is also read by the program with sanitizers, where it is given.
SANITIZED_EVERY = 6
SLOW_S = 20
LONGEST_MESSAGE = 5000
WORDS = [b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"1e-400", b"99999999999999999999",
         b'""', b"[]", b"{}", b"\xff\xfe", b"\x00", b"\\u0000", b"\\ud800", b'"' + b"x" * 5000 + b'"',
         b"[" * 3000, b"NaN", b"\xef\xbb\xbf", b'"\x1b[31m"']


def mutate(numbers, data):
    """A copy with one to eight changes of bytes, values or pieces."""
    data = bytearray(data)
    for _ in range(numbers.choice([1, 1, 1, 2, 3, 8])):
        change = numbers.randrange(8)
        at = numbers.randrange(len(data) + 1)
        end = min(len(data), at + numbers.choice([1, 2, 8, 64, 1024]))
        if change == 0 and data:
            data[min(at, len(data) - 1)] = numbers.randrange(256)
        elif change == 1:
            del data[at:end]
        elif change == 2:
            data[at:at] = numbers.randbytes(numbers.choice([1, 4, 64]))
        elif change == 3:
            data[at:at] = data[at:end]
        elif change == 4:
            del data[at:]
        elif change == 5:
            data[at:at] = numbers.choice(WORDS)
        else:
            replace_value(numbers, data)
    return bytes(data)


def replace_value(numbers, data):
    """Puts another value in the place of one of the document's own."""
    values = [found.span() for found in re.finditer(rb'-?\d+(?:\.\d+)?(?:e-?\d+)?|"[^"]*"|true|null',
                                                    bytes(data[:200000]))]
    if not values:
        return
    begin, end = numbers.choice(values)
    other = numbers.choice([numbers.choice(WORDS),
                            bytes(data[slice(*numbers.choice(values))])])
    data[begin:end] = other


def examine(trial, arguments, codes):
    """Runs the program, and now and then the one with sanitizers, on what a trial has written."""
    programs = [trial.program]
    if trial.sanitized and trial.number % SANITIZED_EVERY == 0:
        programs.append(trial.sanitized)
        trial.sanitized_inputs += 1
    for program in programs:
        ended = trial.run(arguments, program=program)
        if "Sanitizer" in ended.err or "runtime error:" in ended.err:
            raise Miss(f"sanitizer: {ended.err[-1500:]!r}")
        ended.expect(*codes)
        if "internal" in ended.err:
            raise Miss(f"internal error: {ended.err[-400:]!r}")
        if ended.code in (2, 3) and "ddpbench" not in ended.err:
            raise Miss(f"exit {ended.code} without a word")
        if len(ended.err) > LONGEST_MESSAGE or re.search(r"[^\n -~\xa0-\U0010ffff]", ended.err):
            raise Miss(f"a value is repeated whole or raw: {ended.err[:400]!r}")
        if ended.seconds > SLOW_S:
            raise Miss(f"took {ended.seconds:.1f} s")


class Inputs:
    """Files that are right, made once by the program itself."""

    def __init__(self):
        self.files = {}

    def get(self, trial, name):
        if not self.files:
            trial.run(run_arguments("ddp", 2, 12, "--repetitions=2", "--force",
                                    "--json=made.json")).expect(0)
            trial.run(run_arguments("single", 1, 4, "--save-model=made.st", "--force",
                                    "--json=weights.json")).expect(0)
            for made in ("made.json", "made.st"):
                self.files[made] = (trial.folder / made).read_bytes()
            for made in ("made.json", "made.st", "weights.json"):
                (trial.folder / made).unlink()
            folder = trial.folder / "data" / "mnist"
            for path in folder.iterdir():
                self.files[path.name] = path.read_bytes()
        return self.files[name]


INPUTS = Inputs()
CONFIGURATION = {
    "strategy": ["single", "ddp"], "gpus": [1, 2], "model": "lenet5",
    "dataset": {"name": "mnist", "on_missing": "synthesize", "mean": 0.1307, "std": 0.3081},
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0},
    "batch_size": 64, "epochs": 2, "steps": 20, "seed": 1, "timeout": 60,
}
NETWORK = {
    "name": "n", "input": [1, 28, 28], "output": "fc2", "layers": [
        {"name": "c1", "type": "conv2d", "out_channels": 4, "kernel": [3, 3], "padding": 1},
        {"name": "r1", "type": "relu"},
        {"name": "c2", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
        {"name": "s", "type": "add", "inputs": ["r1", "c2"]},
        {"name": "p", "type": "max_pool2d", "kernel": 2, "stride": 2},
        {"name": "fc1", "type": "linear", "out_features": 16, "bias": True},
        {"name": "fc2", "type": "linear", "out_features": 10, "in_features": 16},
    ],
}


def mutated_report(trial):
    """show, chart, html, check and --resume read a mutated report."""
    good = INPUTS.get(trial, "made.json")
    (trial.folder / "bad.json").write_bytes(mutate(trial.random, good))
    (trial.folder / "good.json").write_bytes(good)
    trial.results |= {"bad.json", "good.json", "page.html"}
    arguments, codes = trial.random.choice([
        (["show", "bad.json"], (0, 2)), (["show", "bad.json", "--format=csv"], (0, 2)),
        (["chart", "bad.json"], (0, 2)), (["html", "bad.json", "--output=page.html"], (0, 2)),
        (["check", "good.json", "bad.json"], (0, 2, 6, 7)),
        ([*run_arguments("ddp", 2, 12, "--repetitions=2"), "--dry-run", "--resume=bad.json"],
         (0, 2))])
    if arguments[-1] == "--resume=bad.json":
        arguments = [each for each in arguments if not each.startswith("--json=")]
    examine(trial, arguments, codes)


def is_hasty(data):
    """Whether a configuration gives ranks less time than they may need to be set up, so that exit 4
    is right."""
    try:
        timeout = json.loads(data).get("timeout")
    except (ValueError, AttributeError, RecursionError):
        return False
    return isinstance(timeout, (int, float)) and 0 < timeout < 1


def mutated_configuration(trial):
    """A mutated configuration file is planned, and its ranks set up."""
    data = mutate(trial.random, json.dumps(CONFIGURATION, indent=1).encode())
    (trial.folder / "bad.json").write_bytes(data)
    trial.results.add("bad.json")
    codes = (0, 2, 3, 4) if is_hasty(data) else (0, 2, 3)
    examine(trial, ["--config=bad.json", "--dry-run", "--device=cpu", "--data-dir=data"], codes)


def mutated_network(trial):
    """A mutated network is planned."""
    text = json.dumps(NETWORK, indent=1).encode()
    (trial.folder / "bad.json").write_bytes(mutate(trial.random, text))
    (trial.folder / "with.json").write_text('{"model": "bad.json"}', encoding="utf-8")
    trial.results |= {"bad.json", "with.json"}
    examine(trial, ["--config=with.json", "--dry-run", "--device=cpu", "--data-dir=data"], (0, 2))


def mutated_data(trial):
    """A mutated file of the data set is decoded, and a step made with it."""
    INPUTS.get(trial, "made.json")
    names = sorted(name for name in INPUTS.files if "ubyte" in name)
    name = trial.random.choice(names)
    data = INPUTS.files[name]
    if name.endswith(".gz") and trial.random.random() < 0.5:
        data = gzip.compress(mutate(trial.random, gzip.decompress(data)), mtime=0)
    else:
        data = mutate(trial.random, data)
    (trial.folder / "data" / "mnist" / name).write_bytes(data)
    examine(trial, run_arguments("single", 1, 1, "--force"), (0, 2))


def mutated_weights(trial):
    """Mutated weights are loaded."""
    data = INPUTS.get(trial, "made.st")
    header = 8 + int.from_bytes(data[:8], "little")
    cut = trial.random.choice([header, len(data)])
    (trial.folder / "bad.st").write_bytes(mutate(trial.random, data[:cut]) + data[cut:])
    trial.results.add("bad.st")
    # Weights that are no numbers, or far too large, are found when the run diverges.
    examine(trial, run_arguments("single", 1, 1, "--load-model=bad.st", "--verify-steps=0",
                                 "--force"), (0, 2, 5))
    if (trial.folder / "report.json").exists():
        status = trial.report()["status"]
        if status not in ("ok", "failed"):
            raise Miss(f"status {status}")
