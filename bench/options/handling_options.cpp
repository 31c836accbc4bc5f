// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The definitions of the options that say how runs are handled: measuring, files, output; those of
// comm, and the keys that only a configuration file has.
#include <algorithm>
#include <iterator>

#include "bench/options/option_table.h"
#include "parallel/strategies.h"
#include "reports/exports/records.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {
namespace {

constexpr double kMostTracedSteps = 1e4, kMostCommIterations = 1e5;

Definitions measuring_options() {
  return {
      {.name = "warmup-steps",
       .hint = "N",
       .help = "Steps before the timed ones, at least: more follow until step times are steady. "
               "Training starts anew after them. 0: none.",
       .member = &Options::warmup_steps,
       .rule = between(0, kMostTimes)},
      {.name = "warmup-max-steps",
       .hint = "N",
       .help = "End the warm-up after this many steps, steady or not; as many as --warmup-steps: a "
               "fixed number.",
       .member = &Options::warmup_max_steps,
       .rule = between(0, kMostTimes),
       .default_text = "10 times --warmup-steps"},
      {.name = "repetitions",
       .hint = "N",
       .help = "Times that every run is made, in fresh processes.",
       .member = &Options::repetitions,
       .rule = between(1, kMostTimes),
       .free_on_resume = true},
      {.name = "order",
       .scope = kNotOfTune,
       .help = "Of repeated runs. interleaved: rounds that make every run once, each in a random "
               "order of its own (from --seed), so that drift does not become an effect; "
               "sequential: all repetitions of a run after each other.",
       .member = &Options::order,
       .rule = one_of({"interleaved", "sequential"}),
       .free_on_resume = true},
      {.name = "until-ci",
       .scope = kNotOfTune,
       .hint = "PERCENT%",
       .help = "Repeat a run until the 95 % confidence interval of its median step time is at most "
               "so wide (high end minus low end, relative to the median), or a limit is met.",
       .member = &Options::until_ci,
       .rule = {.maximum = 100, .above_minimum = true},
       .default_text = "off",
       .free_on_resume = true},
      {.name = "max-repetitions",
       .scope = kNotOfTune,
       .hint = "N",
       .help = "Limit of --until-ci; a run that is not so precise by then is marked noisy.",
       .member = &Options::max_repetitions,
       .rule = between(1, kMostTimes),
       .free_on_resume = true},
      {.name = "max-minutes",
       .scope = kNotOfTune,
       .hint = "MINUTES",
       .help = "Limit of --until-ci: no repetition beyond --repetitions starts after so long; 0: "
               "none.",
       .member = &Options::max_minutes,
       .rule = between(0, 1e6),
       .free_on_resume = true},
      {.name = "confirm-repetitions",
       .hint = "N",
       .help = "tune: fresh runs each of the best setting and of the default, after the screening.",
       .member = &Options::confirm_repetitions,
       .rule = between(report::kFewestForInterval, kMostTimes),
       .commands = {Command::tune}},
      {.name = "least-gain",
       .hint = "PERCENT%",
       .help = "tune: recommend a setting only when its steps are at least so much shorter.",
       .member = &Options::least_gain,
       .rule = {.maximum = 100},
       .commands = {Command::tune}},
      {.name = "memory-per-device",
       .hint = "SIZE",
       .help = "fit: memory of each device, such as 16GiB or 80GB, in place of what this machine's "
               "devices have free.",
       .member = &Options::memory_per_device,
       .default_text = "the device's own",
       .sources = kFlag,
       .commands = {Command::fit}},
      {.name = "format",
       .help = "fit: how the batches are printed.",
       .member = &Options::format,
       .rule = one_of(report::record_formats()),
       .default_text = "table",
       .sources = kFlag,
       .commands = {Command::fit}},
      {.name = "verify-steps",
       .scope = kPlannedByFit,
       .hint = "N",
       .help = "Steps compared with a reference on one device before the timing; 0: none.",
       .member = &Options::verify_steps,
       .rule = between(0, kMostTimes)},
      {.name = "observe",
       .hint = "on|off",
       .help = "Record phases and buckets; off shows what recording costs.",
       .member = &Options::observe},
      {.name = "timeout",
       .scope = kOfComm,
       .hint = "SECONDS",
       .help = "A rank without progress for so long ends the run; 0: never.",
       .member = &Options::timeout_s,
       .rule = between(0, 1e9),
       .free_on_resume = true},
      {.name = "interface",
       .scope = kOfComm,
       .hint = "NAME|ADDRESS",
       .help = "The network interface of this host (eth0), or its IPv4 address, that ranks of "
               "several hosts use. Each rank may have its own.",
       .member = &Options::interface,
       .default_text = "that of the way to MASTER_ADDR"},
      {.name = "local-rank",
       .scope = kNotOfTune,
       .hint = "N",
       .help = "This process's rank on its host, as `python -m torch.distributed.launch` gives "
               "it to "
               "those that it starts. LOCAL_RANK says the same.",
       .member = &Options::local_rank,
       .rule = between(0, kMostDevices),
       .default_text = "LOCAL_RANK",
       .sources = kFlag},
      {.name = "inject",
       .hint = "FAULT",
       .help =
           "Plant a fault, for tests and demonstrations: slow:rank=R,phase=P,percent=X (or ms=T; "
           "ms without phase: each call between ranks begins so much later); "
           "kill:rank=R,step=S; stop:...; throw:...; stall:rank=R,step=S,ms=T (it does not come to "
           "a call; without ms for ever); missing_bucket:bucket=B; sum; "
           "stale:rank=R,step=S; seed:rank=R (it starts from other weights). R is a process; of "
           "slow with a phase and stale a device, also one of dp. May be repeated, or separated "
           "by ';'.",
       .member = &Options::injections,
       .default_text = "none"},
  };
}

Definitions launch_options() {
  return {
      {.name = "hosts",
       .scope = kNotOfTune,
       .hint = "HOSTS",
       .help = "Hosts for the ranks, as a:2,b:2, each with the number of devices that it is to "
               "have. The first has rank 0, and its name is one at which the others reach it. "
               "Servers of ps come beside the devices.",
       .member = &Options::hosts,
       .default_text = "this one"},
      {.name = "hostfile",
       .scope = kNotOfTune,
       .hint = "FILE",
       .help = "The same from a file with a host a line: HOST, HOST:N or HOST slots=N; # begins a "
               "comment. -: from standard input.",
       .member = &Options::host_file,
       .default_text = "none"},
      {.name = "launcher",
       .scope = kNotOfTune,
       .help = "Who starts the ranks of every run. local: this program, here. ssh: this program, "
               "on --hosts by --remote-shell. mpirun (Open MPI), srun: that program, once a run, "
               "on "
               "--hosts or where it puts them.",
       .member = &Options::launcher,
       .rule = one_of({"local", "ssh", "mpirun", "srun"}),
       .default_text = "ssh with --hosts, else local",
       .sources = kFlag | kFile},
      {.name = "remote-shell",
       .scope = kNotOfTune,
       .hint = "COMMAND",
       .help = "With --launcher=ssh: the command that runs a command line on a host, called as "
               "COMMAND HOST LINE. It may have arguments, quoted as in a shell.",
       .member = &Options::remote_shell,
       .default_text = "ssh"},
      {.name = "remote-program",
       .scope = kNotOfTune,
       .hint = "PATH",
       .help = "ddpbench on the hosts. It must be the same version as here.",
       .member = &Options::remote_program,
       .default_text = "the path that it has here"},
      {.name = "launcher-args",
       .scope = kNotOfTune,
       .hint = "ARGUMENTS",
       .help = "Further arguments for mpirun or srun, quoted as in a shell.",
       .member = &Options::launcher_arguments,
       .default_text = "none"},
  };
}

Definitions file_options() {
  return {
      {.name = "json",
       .scope = kOfComm,
       .hint = "PATH",
       .help = "Where the report goes. -: to standard output; what else is printed then goes to "
               "stderr.",
       .member = &Options::json_path,
       .default_text = "ddpbench-<UTC time>.json",
       .free_on_resume = true},
      {.name = "resume",
       .scope = kNotOfTune,
       .hint = "REPORT",
       .help = "Complete an interrupted report: runs that are ok in it are kept, the others are "
               "made. Configuration and machine must be the same; repetitions may differ. Written "
               "to --json, or back to REPORT. Not of ranks that a launcher started, nor of other "
               "commands' reports.",
       .member = &Options::resume_path,
       .default_text = "none",
       .sources = kFlag | kVariable,
       .free_on_resume = true},
      {.name = "force",
       .scope = kOfComm,
       .help = "Overwrite existing reports, traces and weights; data fetch: download again.",
       .member = &Options::force,
       .commands = {Command::run, Command::data_fetch},
       .free_on_resume = true},
      {.name = "trace",
       .hint = "FILE",
       .help = "Write the first timed steps of every run as Chrome trace events: steps, phases, "
               "layers, buckets and waiting of every rank, for Perfetto or chrome://tracing.",
       .member = &Options::trace_path,
       .default_text = "none",
       .free_on_resume = true},
      {.name = "trace-steps",
       .hint = "N",
       .help = "With --trace: timed steps of a run that are traced.",
       .member = &Options::trace_steps,
       .rule = between(1, kMostTracedSteps),
       .free_on_resume = true},
      {.name = "save-model",
       .scope = kNotOfTune,
       .hint = "FILE",
       .help = "Write the trained weights (safetensors, PyTorch's names and shapes). Needs a "
               "command "
               "that makes one run.",
       .member = &Options::save_model,
       .default_text = "none"},
      {.name = "load-model",
       .hint = "FILE",
       .help = "Start from these weights (safetensors).",
       .member = &Options::load_model,
       .default_text = "none"},
      {.name = "data-dir",
       .scope = kPlannedByFit,
       .hint = "DIR",
       .help = "Data sets lie in DIR/NAME/.",
       .member = &Options::data_dir,
       .default_text = "the user's cache directory",
       .commands = {Command::run, Command::info, Command::data_list, Command::data_fetch},
       .free_on_resume = true},
  };
}

Definitions other_options() {
  const std::vector<Command> all = {Command::run, Command::info, Command::data_list,
                                    Command::data_fetch};
  return {
      {.name = "dry-run",
       .help = "Check everything, print what would run, and stop: files, data, faults, and each "
               "run "
               "set up on its devices (memory, weights) but for its first step. The exit code is "
               "what the runs would have.",
       .member = &Options::dry_run,
       .free_on_resume = true},
      {.name = "quiet",
       .scope = kOfComm,
       .help = "No progress lines; notes, table and the report's path are still printed.",
       .member = &Options::quiet,
       .commands = {Command::run, Command::data_fetch},
       .free_on_resume = true},
      {.name = "help",
       .scope = kPlannedByFit | kOfComm,
       .help = "Print this text and stop.",
       .sources = kFlag,
       .commands = all,
       .other_names = {"-h"}},
      {.name = "version",
       .scope = kPlannedByFit | kOfComm,
       .help = "Print the version and stop.",
       .sources = kFlag,
       .commands = all},
  };
}

Definitions file_only_keys() {
  return {
      {.name = "model",
       .hint = "NAME",
       .help = "The network: a name in configs/models, or a path.",
       .member = &Options::model,
       .sources = kFile},
      {.name = "dataset.name",
       .hint = "NAME",
       .help = "The data set. auto: the first known one whose images and classes fit the network, "
               "else synthetic. synthetic: images drawn in the network's own shape and classes.",
       .member = &Options::dataset,
       .json_key = "/dataset/name",
       .sources = kFile},
      {.name = "dataset.on_missing",
       .help = "Without the data set's files: draw synthetic samples of the same shapes and counts "
               "(and say so), or stop.",
       .member = &Options::on_missing,
       .rule = one_of({"synthesize", "error"}),
       .json_key = "/dataset/on_missing",
       .sources = kFile},
      {.name = "dataset.mean",
       .hint = "X",
       .help = "Subtracted from samples in [0, 1]: a number for all channels, or a list of one a "
               "channel.",
       .member = &Options::dataset_mean,
       .rule = any_number(),
       .default_text = "the data set's own",
       .json_key = "/dataset/mean",
       .sources = kFile},
      {.name = "dataset.std",
       .hint = "X",
       .help = "What samples are divided by: a number, or a list of one a channel.",
       .member = &Options::dataset_std,
       .rule = positive(),
       .default_text = "the data set's own",
       .json_key = "/dataset/std",
       .sources = kFile},
      {.name = "dataset.augment",
       .hint = "on|off",
       .help = "Crop every training image at random, out of its padding by 4 black pixels, and "
               "mirror half of them. Which way depends on the seed, the epoch and the sample, so "
               "all strategies and numbers of devices see the same pixels.",
       .member = &Options::augment,
       .json_key = "/dataset/augment",
       .sources = kFile},
  };
}

// The commands of `ddpbench comm` alone. What its other options say of ranks holds for them.
Definitions comm_options() {
  Definitions rows = {
      {.name = "op",
       .hint = "NAME,...",
       .help = "Collectives: all_reduce, reduce, broadcast, all_gather, reduce_scatter, scatter, "
               "gather, "
               "send_recv, barrier; all: all of them.",
       .member = &Options::operations,
       .rule = {.choices = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
                            "scatter", "gather", "send_recv", "barrier"},
                .takes_all = true}},
      {.name = "sizes",
       .hint = "SIZES",
       .help = "Bytes of the whole buffer, as nccl-tests counts them: 4K..128M doubles, "
               "4K..128M*4 takes larger steps, 1K,1M is a list.",
       .member = &Options::sizes},
      {.name = "ranks",
       .hint = "N|all,...",
       .help = "Numbers of ranks; all: one a core, or one a GPU. Ranks that mpirun, srun, "
               "torchrun or the variables of docs/launch.md started all take part.",
       .member = &Options::ranks,
       .default_text = "2",
       .other_names = {"--gpus"}},
      {.name = "type",
       .help = "Type of the elements.",
       .member = &Options::type,
       .rule = one_of({"fp32", "fp64", "bf16", "fp16", "int32", "int64", "uint8"})},
      {.name = "redop",
       .help = "What is computed of the ranks' elements.",
       .member = &Options::reduction,
       .rule = one_of({"sum", "average", "max"})},
      {.name = "mode",
       .help = "What ranks are: processes, or threads of one process.",
       .member = &Options::mode,
       .rule = one_of({"process", "thread"})},
      {.name = "iterations",
       .hint = "N",
       .help = "Timed iterations of a row.",
       .member = &Options::iterations,
       .rule = between(1, kMostCommIterations)},
      {.name = "warmup",
       .hint = "N",
       .help = "Iterations before them.",
       .member = &Options::warmup,
       .rule = between(0, kMostCommIterations)},
  };
  for (OptionDefinition& row : rows) {
    row.sources = kFlag | kVariable;
    row.commands = {Command::comm};
  }
  return rows;
}

}  // namespace

Definitions handling_definitions() {
  Definitions all;
  for (Definitions part :
       {in_group("Measuring", measuring_options()),
        in_group("Hosts and launchers", launch_options()), in_group("Files", file_options()),
        in_group("Other", other_options()), in_group("Collectives (comm)", comm_options()),
        in_group("Keys that only a configuration file has", file_only_keys())})
    std::ranges::move(part, std::back_inserter(all));
  return all;
}

}  // namespace ddpbench::bench
