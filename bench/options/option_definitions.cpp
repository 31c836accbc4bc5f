// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The definitions of all options. To add one: a member of Options, an entry here, and the generated
// docs/cli.md and configs/schema/config.schema.json (the tests say how to renew them).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "bench/options/option_table.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {
namespace {

// More than any machine has; catches slipped digits before they become allocations.
constexpr double kMostDevices = 65536, kMostThreads = 4096, kMostSteps = 1e12, kMostTimes = 1e6;
constexpr double kMostSamples = 1 << 24, kMostTracedSteps = 1e4;

ValueRule one_of(std::vector<std::string> choices, std::vector<std::string> absent = {}) {
  return {.choices = std::move(choices), .absent = std::move(absent)};
}
ValueRule between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
ValueRule positive() { return {.above_minimum = true}; }
ValueRule any_number() { return {.minimum = -std::numeric_limits<double>::infinity()}; }

// "single (one device), dp (one process, a thread per device)" and so on.
std::string strategies_in_words() {
  std::string text;
  for (const StrategyTraits& row : all_strategies()) {
    if (!row.is_listed) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", row.name, row.words);
  }
  return text;
}

using Definitions = std::vector<OptionDefinition>;

Definitions comparison_options() {
  const std::string group = "What to compare";
  return {
      {.name = "strategy",
       .group = group,
       .hint = "LIST",
       .help = fmt::format("Strategies, separated by commas: {}.", strategies_in_words()),
       .member = &Options::strategies,
       .rule = one_of(known_strategies())},
      {.name = "gpus",
       .group = group,
       .hint = "LIST|all",
       .help =
           "Numbers of devices (of CPU devices too), separated by commas; all: as many as there "
           "are. single runs once, on one device, whatever is listed.",
       .member = GpuList{},
       .rule = between(1, kMostDevices)},
      {.name = "config",
       .group = group,
       .hint = "NAME",
       .help = "Configuration file: a path, or a name in the configs directory (with or without "
               ".json).",
       .member = &Options::config_path,
       .default_text = "none",
       .sources = kFlag | kVariable,
       .free_on_resume = true},
      {.name = "device",
       .group = group,
       .hint = "auto|cpu|cuda",
       .help = "Kind of device. auto takes CUDA when a GPU is there, and says which it took.",
       .member = &Options::device,
       .rule = one_of({"auto", "cpu", "cuda"})},
      {.name = "backend",
       .group = group,
       .hint = fmt::format("{}", fmt::join(backend_words(), "|")),
       .help = backend_help(),
       .member = &Options::backend,
       .rule = one_of(backend_words())},
      {.name = "precision",
       .group = group,
       .hint = "auto|fp32|tf32|bf16",
       .help = "What products are computed in; weights, gradients and updates are fp32 in all. "
               "auto: fp32 on CPU devices, which have no other, tf32 on CUDA devices that have it.",
       .member = &Options::precision,
       .rule = one_of({"auto", "fp32", "tf32", "bf16"}, {"fp16", "fp64"})},
      {.name = "cuda-graph",
       .group = group,
       .hint = "auto|on|off,...",
       .help = fmt::format(
           "Record a step as a CUDA graph and replay it, so that it costs the host one call. "
           "auto: where the strategy allows it ({}). on,off: such strategies with and without.",
           fmt::join(known_strategies(&StrategyTraits::records_steps), ", ")),
       .member = &Options::cuda_graphs,
       .rule = one_of({"auto", "on", "off"}),
       .bare_when_single = true},
      {.name = "residency",
       .group = group,
       .hint = "host|device",
       .help = "Where the training set lives. host: loader threads assemble batches, which are "
               "copied to CUDA devices ahead of the steps. device (CUDA): a copy on the first "
               "device of each process, which assembles its batches itself.",
       .member = &Options::residency,
       .rule = one_of({"host", "device"})},
      {.name = "deterministic",
       .group = group,
       .hint = "",
       .help = "On CUDA devices use only algorithms whose results repeat bit by bit. CPU devices "
               "always do.",
       .member = &Options::deterministic},
  };
}

Definitions training_options() {
  const std::string group = "Training";
  return {
      {.name = "batch-size",
       .group = group,
       .hint = "N,...",
       .help = "Samples a device and step (weak scaling). Excludes --global-batch-size.",
       .member = &Options::batch_sizes,
       .rule = between(1, kMostSamples),
       .default_text = std::to_string(kDefaultBatchSize),
       .bare_when_single = true},
      {.name = "global-batch-size",
       .group = group,
       .hint = "N,...",
       .help = "Samples a step over all devices (strong scaling); every number of devices must "
               "divide it.",
       .member = &Options::global_batch_sizes,
       .rule = between(1, kMostSamples),
       .default_text = "none",
       .bare_when_single = true},
      {.name = "epochs",
       .group = group,
       .hint = "N",
       .help = "Epochs to train.",
       .member = &Options::epochs,
       .rule = between(1, kMostTimes)},
      {.name = "steps",
       .group = group,
       .hint = "N",
       .help = "Steps of an epoch, at most.",
       .member = &Options::steps,
       .rule = between(1, kMostSteps),
       .default_text = "whole epochs"},
      {.name = "last-batch",
       .group = group,
       .hint = "pad|drop",
       .help = "The incomplete batch at an epoch's end: filled by wrapping around, or left out.",
       .member = &Options::last_batch,
       .rule = one_of({"pad", "drop"})},
      {.name = "seed",
       .group = group,
       .hint = "N",
       .help = "Of the weights, the sample order and synthetic data.",
       .member = &Options::seed},
      {.name = "lr",
       .group = group,
       .hint = "RATE",
       .help = "Learning rate.",
       .member = &Options::lr,
       .rule = positive(),
       .json_key = "/optimizer/lr"},
      {.name = "momentum",
       .group = group,
       .hint = "M",
       .help = "Momentum of SGD.",
       .member = &Options::momentum,
       .rule = {.maximum = 1, .below_maximum = true},
       .json_key = "/optimizer/momentum"},
      {.name = "weight-decay",
       .group = group,
       .hint = "D",
       .help = "L2 penalty added to gradients.",
       .member = &Options::weight_decay,
       .json_key = "/optimizer/weight_decay"},
      {.name = "lr-scaling",
       .group = group,
       .hint = "none|linear",
       .help = "linear multiplies the learning rate by the number of devices.",
       .member = &Options::lr_scaling,
       .rule = one_of({"none", "linear"})},
  };
}

Definitions strategy_options() {
  const std::string group = "Strategies and devices";
  return {
      {.name = "overlap",
       .group = group,
       .hint = "on|off,...",
       .help = "ddp, ps: send buckets or shards while backward still runs, or after it.",
       .member = &Options::overlaps,
       .bare_when_single = true},
      {.name = "bucket-cap-mb",
       .group = group,
       .hint = "MIB,...",
       .help = "ddp: largest gradient bucket, in MiB.",
       .member = &Options::bucket_caps_mb,
       .rule = positive(),
       .bare_when_single = true},
      {.name = "first-bucket-mb",
       .group = group,
       .hint = "MIB,...",
       .help = "ddp: the first bucket, in MiB; small, so that communication starts early.",
       .member = &Options::first_buckets_mb,
       .rule = positive(),
       .bare_when_single = true},
      {.name = "all-reduce",
       .group = group,
       .hint = "auto|ring|direct,...",
       .help =
           "ddp: how gradients are summed. ring: 2 (n - 1) steps between n ranks, each with one "
           "neighbour; direct: 2 steps, each with all others. auto: what the backend does best; "
           "the report says which it was. nccl chooses for itself and takes auto only.",
       .member = &Options::all_reduces,
       .rule = one_of({comm::kAllReduceAlgorithms.begin(), comm::kAllReduceAlgorithms.end()}),
       .bare_when_single = true},
      {.name = "servers",
       .group = group,
       .hint = "N,...",
       .help = "ps: server processes, each with a shard of the parameters.",
       .member = &Options::server_counts,
       .rule = between(1, kMostDevices),
       .bare_when_single = true},
      {.name = "ps-update",
       .group = group,
       .hint = "server|worker,...",
       .help =
           "ps: who updates. Workers pull parameters from a server that does, averaged gradients "
           "from one that does not.",
       .member = &Options::ps_updates,
       .rule = one_of({"server", "worker"}),
       .bare_when_single = true},
      {.name = "server-device",
       .group = group,
       .hint = "auto|cpu|cuda",
       .help =
           "ps: kind of device that servers are on, beside workers on GPUs; auto: as the workers. "
           "On "
           "cpu a server takes cores and no GPU, and shards pass through page-locked host memory.",
       .member = &Options::server_device,
       .rule = one_of({"auto", "cpu", "cuda"})},
      {.name = "threads-per-device",
       .group = group,
       .hint = "N",
       .help = "Compute threads of a CPU device, the same for every run of a report.",
       .member = &Options::threads_per_device,
       .rule = between(1, kMostThreads)},
      {.name = "loader-workers",
       .group = group,
       .hint = "N",
       .help = "Threads a rank that assemble batches ahead; 0: the training thread does it.",
       .member = &Options::loader_workers,
       .rule = between(0, kMostThreads)},
      {.name = "oversubscribe",
       .group = group,
       .hint = "",
       .help = "Let ranks share GPUs when there are fewer than asked for; such runs are marked.",
       .member = &Options::oversubscribe},
  };
}

Definitions measuring_options() {
  const std::string group = "Measuring";
  return {
      {.name = "warmup-steps",
       .group = group,
       .hint = "N",
       .help = "Steps before the timed ones, at least: more follow until step times are steady. "
               "Training starts anew after them. 0: none.",
       .member = &Options::warmup_steps,
       .rule = between(0, kMostTimes)},
      {.name = "warmup-max-steps",
       .group = group,
       .hint = "N",
       .help = "End the warm-up after so many steps, steady or not; as many as --warmup-steps: a "
               "fixed number.",
       .member = &Options::warmup_max_steps,
       .rule = between(0, kMostTimes),
       .default_text = "10 times --warmup-steps"},
      {.name = "repetitions",
       .group = group,
       .hint = "N",
       .help = "Times that every run is made, in fresh processes.",
       .member = &Options::repetitions,
       .rule = between(1, kMostTimes),
       .free_on_resume = true},
      {.name = "order",
       .group = group,
       .hint = "interleaved|sequential",
       .help = "Of repeated runs. interleaved: rounds that make every run once, each in a random "
               "order of its own (from --seed), so that drift does not become an effect; "
               "sequential: all repetitions of a run after each other.",
       .member = &Options::order,
       .rule = one_of({"interleaved", "sequential"}),
       .free_on_resume = true},
      {.name = "until-ci",
       .group = group,
       .hint = "PERCENT%",
       .help = "Repeat a run until the 95 % confidence interval of its median step time is at most "
               "so wide (high end minus low end, relative to the median), or a limit is met.",
       .member = &Options::until_ci,
       .rule = {.maximum = 100, .above_minimum = true},
       .default_text = "off",
       .free_on_resume = true},
      {.name = "max-repetitions",
       .group = group,
       .hint = "N",
       .help = "Limit of --until-ci; a run that is not so precise by then is marked noisy.",
       .member = &Options::max_repetitions,
       .rule = between(1, kMostTimes),
       .free_on_resume = true},
      {.name = "max-minutes",
       .group = group,
       .hint = "MINUTES",
       .help = "Limit of --until-ci: no repetition beyond --repetitions starts after so long; 0: "
               "none.",
       .member = &Options::max_minutes,
       .rule = between(0, 1e6),
       .free_on_resume = true},
      {.name = "confirm-repetitions",
       .group = group,
       .hint = "N",
       .help = "tune: fresh runs each of the best setting and of the default, after the screening.",
       .member = &Options::confirm_repetitions,
       .rule = between(report::kFewestForInterval, kMostTimes),
       .commands = {Command::tune}},
      {.name = "least-gain",
       .group = group,
       .hint = "PERCENT%",
       .help = "tune: recommend a setting only when its steps are at least so much shorter.",
       .member = &Options::least_gain,
       .rule = {.maximum = 100},
       .commands = {Command::tune}},
      {.name = "verify-steps",
       .group = group,
       .hint = "N",
       .help = "Steps compared with a reference on one device before the timing; 0: none.",
       .member = &Options::verify_steps,
       .rule = between(0, kMostTimes)},
      {.name = "observe",
       .group = group,
       .hint = "on|off",
       .help = "Record phases and buckets; off shows what recording costs.",
       .member = &Options::observe},
      {.name = "timeout",
       .group = group,
       .hint = "SECONDS",
       .help = "A rank without progress for so long ends the run; 0: never.",
       .member = &Options::timeout_s,
       .rule = between(0, 1e9),
       .free_on_resume = true},
      {.name = "inject",
       .group = group,
       .hint = "FAULT",
       .help = "Plant a fault, for tests and demonstrations: slow:rank=R,phase=P,percent=X; "
               "kill:rank=R,step=S; stop:...; throw:...; missing_bucket:bucket=B; sum; "
               "stale:rank=R,step=S. May be repeated, or separated by ';'.",
       .member = &Options::injections,
       .default_text = "none"},
  };
}

Definitions file_options() {
  const std::string group = "Files";
  return {
      {.name = "json",
       .group = group,
       .hint = "PATH",
       .help = "Where the report goes.",
       .member = &Options::json_path,
       .default_text = "ddpbench-<UTC time>.json",
       .free_on_resume = true},
      {.name = "resume",
       .group = group,
       .hint = "REPORT",
       .help = "Complete an interrupted report: runs that are ok in it are kept, the others are "
               "made. Configuration and machine must be the same; repetitions may differ. Written "
               "to --json, or back to REPORT.",
       .member = &Options::resume_path,
       .default_text = "none",
       .sources = kFlag | kVariable,
       .free_on_resume = true},
      {.name = "force",
       .group = group,
       .hint = "",
       .help = "Overwrite existing reports, traces and weights; data fetch: download again.",
       .member = &Options::force,
       .commands = {Command::run, Command::data_fetch},
       .free_on_resume = true},
      {.name = "trace",
       .group = group,
       .hint = "FILE",
       .help = "Write the first timed steps of every run as Chrome trace events: steps, phases, "
               "layers, buckets and waiting of every rank, for Perfetto or chrome://tracing.",
       .member = &Options::trace_path,
       .default_text = "none",
       .free_on_resume = true},
      {.name = "trace-steps",
       .group = group,
       .hint = "N",
       .help = "With --trace: timed steps of a run that are traced.",
       .member = &Options::trace_steps,
       .rule = between(1, kMostTracedSteps),
       .free_on_resume = true},
      {.name = "save-model",
       .group = group,
       .hint = "FILE",
       .help =
           "Write the trained weights (safetensors, PyTorch's names and shapes). Needs a command "
           "that makes one run.",
       .member = &Options::save_model,
       .default_text = "none"},
      {.name = "load-model",
       .group = group,
       .hint = "FILE",
       .help = "Start from these weights (safetensors).",
       .member = &Options::load_model,
       .default_text = "none"},
      {.name = "data-dir",
       .group = group,
       .hint = "DIR",
       .help = "Data sets lie in DIR/NAME/.",
       .member = &Options::data_dir,
       .default_text = "the user's cache directory",
       .commands = {Command::run, Command::info, Command::data_list, Command::data_fetch},
       .free_on_resume = true},
  };
}

Definitions other_options() {
  const std::string group = "Other";
  const std::vector<Command> all = {Command::run, Command::info, Command::data_list,
                                    Command::data_fetch};
  return {
      {.name = "dry-run",
       .group = group,
       .hint = "",
       .help = "Check everything, print what would run, and stop.",
       .member = &Options::dry_run,
       .free_on_resume = true},
      {.name = "quiet",
       .group = group,
       .hint = "",
       .help = "No progress lines; notes, table and the report's path are still printed.",
       .member = &Options::quiet,
       .commands = {Command::run, Command::data_fetch},
       .free_on_resume = true},
      {.name = "help",
       .group = group,
       .hint = "",
       .help = "Print this text and stop.",
       .sources = kFlag,
       .commands = all},
      {.name = "version",
       .group = group,
       .hint = "",
       .help = "Print the version and stop.",
       .sources = kFlag,
       .commands = all},
  };
}

Definitions file_only_keys() {
  const std::string group = "Keys that only a configuration file has";
  return {
      {.name = "model",
       .group = group,
       .hint = "NAME",
       .help = "The network: a name in configs/models, or a path.",
       .member = &Options::model,
       .sources = kFile},
      {.name = "dataset.name",
       .group = group,
       .hint = "NAME",
       .help = "The data set.",
       .member = &Options::dataset,
       .json_key = "/dataset/name",
       .sources = kFile},
      {.name = "dataset.on_missing",
       .group = group,
       .hint = "synthesize|error",
       .help = "Without the data set's files: draw synthetic samples of the same shapes and counts "
               "(and say so), or stop.",
       .member = &Options::on_missing,
       .rule = one_of({"synthesize", "error"}),
       .json_key = "/dataset/on_missing",
       .sources = kFile},
      {.name = "dataset.mean",
       .group = group,
       .hint = "X",
       .help = "Subtracted from samples in [0, 1].",
       .member = &Options::dataset_mean,
       .rule = any_number(),
       .json_key = "/dataset/mean",
       .sources = kFile},
      {.name = "dataset.std",
       .group = group,
       .hint = "X",
       .help = "What samples are divided by.",
       .member = &Options::dataset_std,
       .rule = positive(),
       .json_key = "/dataset/std",
       .sources = kFile},
      {.name = "optimizer.name",
       .group = group,
       .hint = "sgd",
       .help = "The optimizer.",
       .member = &Options::optimizer,
       .rule = one_of({"sgd"}),
       .json_key = "/optimizer/name",
       .sources = kFile},
  };
}

}  // namespace

std::vector<OptionDefinition> option_definitions() {
  Definitions table;
  for (Definitions part : {comparison_options(), training_options(), strategy_options(),
                           measuring_options(), file_options(), other_options(), file_only_keys()})
    std::ranges::move(part, std::back_inserter(table));
  return table;
}

}  // namespace ddpbench::bench
