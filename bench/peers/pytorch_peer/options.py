# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Options as in ddpbench: defaults, configuration file, DDPBENCH_ variables, flags; later wins.

Names and meanings are ddpbench's where it has the option (docs/cli.md). compile, residency and
pace are this peer's own.
"""
import difflib
import json
import os
from typing import Any, Callable, NamedTuple

from .environment import ROOT
from .errors import UsageError

CONFIGS = os.path.join(ROOT, "configs")
# Keys of ddpbench's configuration files that have no effect here.
NOT_HEEDED = ("$schema", "comment", "backend", "servers", "ps_update", "ps_mode",
              "max_staleness", "backup_workers", "server_device", "order",
              "until_ci", "max_repetitions", "max_minutes", "confirm_repetitions", "least_gain",
              "verify_steps", "warmup_max_steps", "all_reduce", "cuda_graph", "deterministic",
              "observe", "oversubscribe", "trace", "trace_steps", "dry_run", "loader_cost",
              "emulate_gil", "interface", "label")
ONE_HOST = "this peer trains on this host alone"
REFUSED = {"runs": "this peer makes no list of runs; give it the options of each entry in turn",
           "inject": "this peer plants no faults",
           "until_miou": "this peer judges no maps",
           "comm_hook": "this peer averages gradients as they are",
           "emulate_link": "this peer emulates no link",
           "dataset/crop": "this peer reads no images",
           **dict.fromkeys(("checkpoint", "checkpoint_every", "resume_training"),
                           "this peer saves weights alone (save_model)"),
           **dict.fromkeys(("accumulation_steps", "accumulation_sync"),
                           "this peer updates after every pass"),
           **dict.fromkeys(("sync_every", "outer_lr", "outer_momentum"),
                           "this peer has no local SGD"),
           **dict.fromkeys(("stages", "micro_batches", "schedule", "cut"),
                           "this peer splits no layers"),
           "unit_mb": "this peer shards no weights",
           **dict.fromkeys(("hosts", "hostfile", "launcher", "remote_shell", "remote_program",
                            "launcher_args"), ONE_HOST)}


def whole(least):
    def parse(text):
        number = int(text)
        if number < least:
            raise ValueError(f"expected at least {least}")
        return number
    return parse


def number(least, exclusive=False):
    def parse(text):
        value = float(text)
        if not (value > least if exclusive else value >= least) or value == float("inf"):
            raise ValueError(f"expected {'more than' if exclusive else 'at least'} {least:g}")
        return value
    return parse


def share(text):
    """98% or 0.98, as a share of 1."""
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 < value <= 1 or (value == 1 and not text.endswith("%")):
        raise ValueError("expected a share such as 98% or 0.98, above 0 to 100%")
    return value


def of_channels(parse_one):
    """One number for all channels, or a list of one a channel."""
    def parse(text):
        values = [parse_one(part) for part in text.split(",")]
        return values[0] if len(values) == 1 else values
    return parse


def one_of(*words):
    def parse(text):
        if text not in words:
            raise ValueError("expected " + ", ".join(words[:-1]) + " or " + words[-1])
        return text
    return parse


def list_of(parse_one):
    def parse(text):
        values = [parse_one(part.strip()) for part in text.split(",")]
        if len(set(values)) < len(values):
            raise ValueError("a value is given twice")
        return values
    return parse


def device_counts(text):
    return "all" if text == "all" else list_of(whole(1))(text)


def switch(text):
    return one_of("on", "off")(text) == "on"


def filled(text):
    if not text:
        raise ValueError("expected a value")
    return text


class Option(NamedTuple):
    name: str  # key of configuration files; the flag has - in place of _
    value: str
    default: Any
    parse: Callable[[str], Any]
    help: str


OPTIONS = (
    Option("strategy", "LIST", ["single"], list_of(one_of("single", "dp", "ddp", "ps", "zero1", "zero2", "zero3")),
           "single, dp (nn.DataParallel), ddp (DistributedDataParallel); ps is recorded as skipped"),
    Option("gpus", "LIST|all", [1], device_counts, "numbers of devices, of CPU devices too"),
    Option("model", "NAME|FILE", "simple_cnn", filled, "the network: a name, or a file"),
    Option("dataset/name", "NAME", "auto", filled, "the data set; auto: one that fits the network"),
    Option("config", "NAME", None, filled, "configuration file: a path, or a name in configs/"),
    Option("device", "auto|cpu|cuda", "auto", one_of("auto", "cpu", "cuda"),
           "kind of device; auto takes CUDA when a GPU is there"),
    Option("precision", "fp32|tf32|bf16", "fp32", one_of("fp32", "tf32", "bf16"),
           "number format; bf16 through autocast, tf32 on GPUs only"),
    Option("compile", "none|inductor|cuda-graphs", "none",
           one_of("none", "inductor", "cuda-graphs"),
           "eager; torch.compile; the whole step as one CUDA graph (GPUs only)"),
    Option("residency", "host|device", "host", one_of("host", "device"),
           "where the samples lie and batches are made; device: GPUs only"),
    Option("pace", "step|free", "free", one_of("step", "free"),
           "GPUs: wait for the end of each step, or let the host run ahead"),
    Option("batch_size", "N", 64, whole(1), "samples a device and step (weak scaling)"),
    Option("global_batch_size", "N", None, whole(1), "samples a step over all devices (strong)"),
    Option("epochs", "N", 1, whole(1), "epochs to train; with --until-accuracy, at most"),
    Option("until_accuracy", "PERCENT%", None, share,
           "end a run after the first epoch with this test accuracy; default: off"),
    Option("steps", "N", None, whole(1), "steps of an epoch, at most; default: whole epochs"),
    Option("last_batch", "pad|drop", "pad", one_of("pad", "drop"), "the incomplete last batch"),
    Option("seed", "N", 1, whole(0), "of the weights and the sample order"),
    Option("optimizer", "sgd|adam|adamw", "sgd", one_of("sgd", "adam", "adamw"), "the optimizer"),
    Option("lr", "RATE", None, number(0, True),
           "learning rate; default: 0.01 (adam, adamw: 0.001)"),
    Option("momentum", "M", 0.9, number(0), "sgd: momentum"),
    Option("nesterov", "", False, switch, "sgd: Nesterov's momentum"),
    Option("beta1", "B", 0.9, number(0), "adam, adamw: share of the mean that each step keeps"),
    Option("beta2", "B", 0.999, number(0, True), "adam, adamw: the same of squared gradients"),
    Option("epsilon", "E", 1e-8, number(1e-30), "adam, adamw: added to the divisor"),
    Option("weight_decay", "D", None, number(0),
           "sgd, adam: L2 penalty, adamw: decoupled; default: 0 (adamw: 0.01)"),
    Option("lr_scaling", "none|linear", "none", one_of("none", "linear"),
           "linear multiplies the learning rate by the number of devices"),
    Option("lr_schedule", "constant|step|cosine", "constant", one_of("constant", "step", "cosine"),
           "how the learning rate changes with the steps"),
    Option("lr_step_size", "N", None, whole(1), "step: steps between two changes"),
    Option("lr_gamma", "G", 0.1, number(0, True), "step: what the rate is multiplied by"),
    Option("lr_cosine_steps", "N", None, whole(1),
           "cosine: steps down to --lr-min; default: all after --lr-warmup-steps"),
    Option("lr_min", "RATE", 0.0, number(0), "cosine: the least rate"),
    Option("lr_warmup_steps", "N", 0, whole(0), "first steps, over which the rate grows"),
    Option("lr_warmup_factor", "F", 0.01, number(0, True), "share of the rate from which it grows"),
    Option("overlap", "on", True, switch, "ddp: DistributedDataParallel knows no other"),
    Option("bucket_cap_mb", "MIB", 25.0, number(0, True), "ddp: largest gradient bucket"),
    Option("first_bucket_mb", "MIB", 1.0, number(0, True), "ddp: fixed in PyTorch"),
    Option("devices_per_process", "1", 1, whole(1), "ddp: DistributedDataParallel knows no other"),
    Option("broadcast_buffers", "on|off", True, switch,
           "ddp: rank 0's running statistics for all, or each rank its own"),
    Option("sync_batch_norm", "off", False, switch,
           "refused: PyTorch's SyncBatchNorm has no CPU form, and this peer does not convert to it"),
    Option("threads_per_device", "N", 1, whole(1), "compute threads of a CPU device"),
    Option("loader_workers", "N", 1, whole(0),
           "0: the training thread makes host batches; else one thread does, ahead"),
    Option("warmup_steps", "N", 10, whole(0), "steps before the timed ones, which start anew"),
    Option("repetitions", "N", 1, whole(1), "times that every run is made, in fresh processes"),
    Option("timeout", "SECONDS", 300.0, number(0), "a run without progress ends; 0: never"),
    Option("json", "PATH", None, filled, "the report; default: ddpbench-<UTC time>.json"),
    Option("force", "", False, switch, "overwrite existing files"),
    Option("save_model", "FILE", None, filled, "write the trained weights (one run only)"),
    Option("load_model", "FILE", None, filled, "start from these weights (safetensors)"),
    Option("data_dir", "DIR", None, filled, "data sets lie in DIR/NAME/; default: as ddpbench"),
    Option("verbose", "", False, switch, "accepted; there is no longer table"),
    Option("quiet", "", False, switch, "no lines about single runs"),
    # Keys that only a configuration file has.
    Option("dataset/on_missing", "", "synthesize", one_of("synthesize", "error"), ""),
    Option("dataset/mean", "", None, of_channels(float), ""),
    Option("dataset/std", "", None, of_channels(number(0, True)), ""),
    Option("dataset/augment", "", False, switch, ""),
)
BY_NAME = {option.name: option for option in OPTIONS}
# By their names on the command line, --dataset of "dataset/name".
FLAGS = {option.name.removesuffix("/name"): option for option in OPTIONS if option.help}
ADAM = ("adam", "adamw")
# Options that do something beside some values of another; no values: beside all but its default.
ONLY_WITH = {"momentum": ("optimizer", ("sgd",)), "nesterov": ("optimizer", ("sgd",)),
             "beta1": ("optimizer", ADAM), "beta2": ("optimizer", ADAM),
             "epsilon": ("optimizer", ADAM), "lr_step_size": ("lr_schedule", ("step",)),
             "lr_gamma": ("lr_schedule", ("step",)), "lr_cosine_steps": ("lr_schedule", ("cosine",)),
             "lr_min": ("lr_schedule", ("cosine",)), "lr_warmup_factor": ("lr_warmup_steps", ())}
OPTIMIZER_OPTIONS = ("lr", "weight_decay", "momentum", "nesterov", "beta1", "beta2", "epsilon")
SCHEDULE_OPTIONS = ("lr_schedule", "lr_step_size", "lr_gamma", "lr_cosine_steps", "lr_min",
                    "lr_warmup_steps", "lr_warmup_factor")


def parse_value(name, text, where):
    try:
        return BY_NAME[name].parse(text)
    except ValueError as error:
        raise UsageError(f"{where}: {text!r} is no value of it: {error}") from None


def unknown(what, name, known):
    near = difflib.get_close_matches(name, known, 1)
    return UsageError(f"{what} {name}" + (f"; did you mean {near[0]}?" if near else ""))


def flags(arguments):
    """Returns name -> value as given on the command line."""
    layer = {}
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if not argument.startswith("--"):
            raise UsageError(f"unexpected argument {argument!r}; options look like --batch-size=64")
        word, equals, value = argument[2:].partition("=")
        name = word.replace("-", "_")
        if name not in FLAGS:
            known = ["--" + flag.replace("_", "-") for flag in FLAGS]
            raise unknown("unknown option", "--" + word, known)
        if FLAGS[name].name in layer:
            raise UsageError(f"--{word} is given 2 times; give it once")
        if not FLAGS[name].value:
            value = value if equals else "on"
        elif not equals:
            if not arguments:
                raise UsageError(f"{argument} needs a value ({FLAGS[name].value})")
            value = arguments.pop(0)
        key = FLAGS[name].name
        layer[key] = parse_value(key, value, argument.partition("=")[0])
    return layer


def variables(environ):
    return {option.name: parse_value(option.name, environ["DDPBENCH_" + name.upper()],
                                     "DDPBENCH_" + name.upper())
            for name, option in FLAGS.items() if environ.get("DDPBENCH_" + name.upper())}


def config_path(name):
    for path in (name, os.path.join(CONFIGS, name), os.path.join(CONFIGS, name + ".json")):
        if os.path.isfile(path):
            return path
    names = [file[:-5] for file in sorted(os.listdir(CONFIGS)) if file.endswith(".json")]
    raise unknown(f"--config: neither a file nor in {CONFIGS}:", name, names)


def as_text(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(as_text(part) for part in value)
    return str(value)


def config_file(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path}: expected a JSON object")
    layer = {}
    for key, value in document.items():
        members = value.items() if key in ("dataset", "optimizer") and isinstance(value, dict) \
            else [(None, value)]
        for member, inner in members:
            name = key if member is None else f"{key}/{member}"
            if name == "optimizer":
                raise UsageError(f"{path}: /optimizer: expected an object with a name")
            name = {"optimizer/name": "optimizer",
                    **{f"optimizer/{own}": own for own in OPTIMIZER_OPTIONS}}.get(name, name)
            if name in NOT_HEEDED:
                continue
            if name in REFUSED:
                raise UsageError(f"{path}: /{name}: {REFUSED[name]}")
            if name not in BY_NAME or name == "config":
                raise unknown(f"{path}: unknown key", name, [*BY_NAME, *NOT_HEEDED, *REFUSED])
            layer[name] = parse_value(name, as_text(inner), f"{path}: /{name}")
    return layer


def merge(layers):
    """`batch_size` and `global_batch_size` exclude each other in a layer and replace each other."""
    values = {option.name: option.default for option in OPTIONS}
    for where, layer in layers:
        if "batch_size" in layer and "global_batch_size" in layer:
            raise UsageError(f"{where}: batch_size and global_batch_size exclude each other")
        if "batch_size" in layer:
            values["global_batch_size"] = None
        values.update(layer)
    if values["global_batch_size"] is not None:
        values["batch_size"] = None
    return values


def flag_of(name):
    return "--" + name.replace("_", "-")


def heeded(values, name):
    if name not in ONLY_WITH:
        return True
    other, wanted = ONLY_WITH[name]
    return values[other] in wanted if wanted else values[other] != BY_NAME[other].default


def settle(values, layers):
    """As ddpbench: what does nothing beside other options is refused, unless an earlier layer gave
    it beside others. Sets the defaults that depend on the optimizer."""
    for name, (other, wanted) in ONLY_WITH.items():
        if heeded(values, name):
            continue
        decided = max((at for at, (_, layer) in enumerate(layers) if other in layer), default=0)
        if any(name in layer for _, layer in layers[decided:]):
            raise UsageError(f"{flag_of(name)}: it does nothing with {flag_of(other)}="
                             f"{values[other]}; it is for {', '.join(wanted) or flag_of(other)}")
        values[name] = BY_NAME[name].default
    if values["lr"] is None:
        values["lr"] = 0.01 if values["optimizer"] == "sgd" else 0.001
    if values["weight_decay"] is None:
        values["weight_decay"] = 0.01 if values["optimizer"] == "adamw" else 0.0


def resolve(arguments, environ):
    """Returns all options, by name."""
    given, environment = flags(arguments), variables(environ)
    name = given.get("config", environment.get("config"))
    layers = [("variables", environment), ("command line", given)]
    if name is not None:
        path = config_path(name)
        layers.insert(0, (path, config_file(path)))
    options = merge(layers)
    settle(options, layers)
    if name is not None:
        options["config"] = config_path(name)
    for name in ("momentum", "beta1", "beta2"):
        if options[name] >= 1:
            raise UsageError(f"--{name}={options[name]:g}: expected less than 1")
    if options["lr_schedule"] == "step" and options["lr_step_size"] is None:
        raise UsageError("--lr-schedule=step needs --lr-step-size=N")
    scheduled = options["lr_schedule"] != "constant" or options["lr_warmup_steps"] > 0
    if scheduled and options["compile"] == "cuda-graphs":
        raise UsageError("--compile=cuda-graphs: PyTorch's graphs keep the learning rate that they "
                         "were recorded with")
    if options["nesterov"] and options["momentum"] == 0:
        raise UsageError("--nesterov: it changes the momentum, and --momentum is 0")
    if not options["overlap"]:
        raise UsageError("--overlap=off: DistributedDataParallel always overlaps")
    if options["devices_per_process"] != 1:
        raise UsageError("--devices-per-process: DistributedDataParallel has one device a process")
    if options["sync_batch_norm"]:
        raise UsageError("--sync-batch-norm=on: PyTorch's SyncBatchNorm has no CPU form, and this peer "
                         "does not convert networks to it; leave the option out")
    if options["first_bucket_mb"] != 1:
        raise UsageError("--first-bucket-mb: PyTorch's first bucket is 1 MiB")
    return options


def model_path(name):
    if os.path.isfile(name):
        return name
    models = os.path.join(CONFIGS, "models")
    path = os.path.join(models, name + ".json")
    if not os.path.isfile(path):
        raise unknown(f"model: neither a file nor in {models}:", name,
                      [file[:-5] for file in sorted(os.listdir(models))])
    return path


def data_directory(given, environ):
    if given:
        return given
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
    return os.path.join(cache, "ddpbench")


def help_text():
    lines = []
    for name, option in FLAGS.items():
        flag = "--" + name.replace("_", "-") + ("=" + option.value if option.value else "")
        lines.append(f"  {flag:38s} {option.help}")
    return "\n".join(lines)
