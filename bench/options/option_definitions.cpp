// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The definitions of the options that say what is compared and trained; handling_options.cpp has
// the others. A new option needs a member of Options, an entry in one of the two, and docs/cli.md
// and configs/schema/config.schema.json generated anew (the tests say how).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "bench/options/option_table.h"
#include "kernels/ops/optimizer.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// Returns "single (one device), dp (one process, a thread per device)" and so on.
std::string strategies_in_words() {
  std::string text;
  for (const StrategyTraits& row : all_strategies()) {
    if (!row.is_listed) continue;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", row.name, row.words);
  }
  return text;
}

// Kinds of devices of other programs.
std::vector<AbsentChoice> absent_devices() {
  std::vector<AbsentChoice> devices;
  for (const char* name : {"rocm", "hip", "xpu", "mps", "tpu"}) {
    devices.push_back({name, "this version computes on CPUs and on NVIDIA's GPUs"});
  }
  return devices;
}

constexpr double kMostThreads = 4096, kMostSteps = 1e12, kMostSamples = 1 << 24;
constexpr const char* kNoSuchPrecision = "this version does not compute in it";

Definitions comparison_options() {
  return {
      {.name = "strategy",
       .scope = kPerRun | kPlannedByFit | kNotOfTune,
       .help = fmt::format("Strategies, separated by commas: {}. all: all of them.",
                           strategies_in_words()),
       .member = &Options::strategies,
       .rule = {.choices = known_strategies(), .takes_all = true}},
      {.name = "gpus",
       .scope = kPerRun | kPlannedByFit,
       .hint = "LIST|all",
       .help = "Numbers of devices (of CPU devices too), separated by commas; all: as many as "
               "there "
               "are. single runs once, on one device, whatever is listed.",
       .member = GpuList{},
       .rule = between(1, kMostDevices)},
      {.name = "config",
       .scope = kPlannedByFit,
       .hint = "NAME",
       .help = "Configuration file: a path, a name in the configs directory (with or without "
               ".json), "
               "or - for standard input.",
       .member = &Options::config_path,
       .default_text = "none",
       .sources = kFlag | kVariable,
       .free_on_resume = true},
      {.name = "device",
       .scope = kPlannedByFit | kOfComm,
       .help = "Kind of device. auto takes CUDA when a GPU is there, and says which it took.",
       .member = &Options::device,
       .rule = one_of({"auto", "cpu", "cuda"}, absent_devices())},
      {.name = "backend",
       .scope = kPlannedByFit | kOfComm,
       .help = backend_help(),
       .member = &Options::backend,
       .rule = one_of(backend_words())},
      {.name = "precision",
       .scope = kPerRun | kPlannedByFit,
       .help = "What products are computed in; weights, gradients and updates are fp32 in all. "
               "auto: fp32 on CPU devices, tf32 on CUDA devices that have it. bf16 on CPU devices "
               "needs avx512_bf16 or AMX (`ddpbench info` says).",
       .member = &Options::precision,
       .rule = one_of({"auto", "fp32", "tf32", "bf16"},
                      {{"fp16", kNoSuchPrecision}, {"fp64", kNoSuchPrecision}})},
      {.name = "cuda-graph",
       .scope = kPerRun,
       .help = fmt::format(
           "Record a step as a CUDA graph and replay it, so that it costs the host one call. "
           "auto: where the strategy allows it ({}). on,off: such strategies with and without.",
           fmt::join(known_strategies(&StrategyTraits::records_steps), ", ")),
       .member = &Options::cuda_graphs,
       .rule = one_of({"auto", "on", "off"}),
       .bare_when_single = true},
      {.name = "residency",
       .scope = kPlannedByFit,
       .help = "Where the training set lives. host: loader threads assemble batches, which are "
               "copied to CUDA devices ahead of the steps. device (CUDA): a copy on the first "
               "device of each process, which assembles its batches itself.",
       .member = &Options::residency,
       .rule = one_of({"host", "device"})},
      {.name = "deterministic",
       .scope = kPlannedByFit,
       .help = "On CUDA devices use only algorithms whose results repeat bit by bit. CPU devices "
               "always do.",
       .member = &Options::deterministic},
  };
}

Definitions training_options() {
  return {
      {.name = "batch-size",
       .scope = kPerRun,
       .hint = "N,...",
       .help = "Samples a device and step (weak scaling). Excludes --global-batch-size.",
       .member = &Options::batch_sizes,
       .rule = between(1, kMostSamples),
       .default_text = std::to_string(kDefaultBatchSize),
       .bare_when_single = true},
      {.name = "global-batch-size",
       .scope = kPerRun,
       .hint = "N,...",
       .help = "Samples a step over all devices (strong scaling); every number of devices must "
               "divide it.",
       .member = &Options::global_batch_sizes,
       .rule = between(1, kMostSamples),
       .default_text = "none",
       .bare_when_single = true},
      {.name = "epochs",
       .hint = "N",
       .help = "Epochs to train, at most: --until-accuracy and a loss that is not finite end a "
               "run.",
       .member = &Options::epochs,
       .rule = between(1, kMostTimes)},
      {.name = "steps",
       .hint = "N",
       .help = "Steps of an epoch, at most.",
       .member = &Options::steps,
       .rule = between(1, kMostSteps),
       .default_text = "whole epochs"},
      {.name = "until-accuracy",
       .scope = kNotOfTune,
       .hint = "PERCENT%",
       .help = "End a run after the first epoch at whose end the accuracy over the whole test set "
               "is "
               "at least this. The report says how long training took until then, or that --epochs "
               "were too few.",
       .member = &Options::until_accuracy,
       .rule = {.maximum = 100, .above_minimum = true},
       .default_text = "off"},
      {.name = "last-batch",
       .scope = kPlannedByFit,
       .help = "The incomplete batch at an epoch's end: filled by wrapping around, or left out.",
       .member = &Options::last_batch,
       .rule = one_of({"pad", "drop"})},
      {.name = "seed",
       .scope = kPlannedByFit,
       .hint = "N",
       .help = "Of the weights, the sample order and synthetic data.",
       .member = &Options::seed},
  };
}

constexpr ValueRule kBelowOne = {.maximum = 1, .below_maximum = true};

// The optimizer and its numbers, as PyTorch's classes have them.
Definitions optimizer_options() {
  const OnlyWith sgd = {"optimizer", {"sgd"}}, adam = {"optimizer", {"adam", "adamw"}};
  return {
      {.name = "optimizer",
       .scope = kPerRun | kPlannedByFit,
       .help = "What updates parameters: on replicas, or on the servers of ps.",
       .member = &Options::optimizer,
       .rule = one_of({ops::kOptimizerNames.begin(), ops::kOptimizerNames.end()}),
       .json_key = "/optimizer/name"},
      {.name = "lr",
       .scope = kPerRun,
       .hint = "RATE",
       .help = "Learning rate.",
       .member = &Options::lr,
       .rule = positive(),
       .default_text = "0.01 (adam, adamw: 0.001)",
       .json_key = "/optimizer/lr"},
      {.name = "momentum",
       .scope = kPerRun | kPlannedByFit,
       .hint = "M",
       .help = "sgd: momentum.",
       .member = &Options::momentum,
       .rule = kBelowOne,
       .json_key = "/optimizer/momentum",
       .only_with = sgd},
      {.name = "nesterov",
       .scope = kPerRun,
       .help = "sgd: Nesterov's momentum.",
       .member = &Options::nesterov,
       .json_key = "/optimizer/nesterov",
       .only_with = sgd},
      {.name = "beta1",
       .scope = kPerRun,
       .hint = "B",
       .help = "adam, adamw: how much of the mean of gradients each step keeps.",
       .member = &Options::beta1,
       .rule = kBelowOne,
       .json_key = "/optimizer/beta1",
       .only_with = adam},
      {.name = "beta2",
       .scope = kPerRun,
       .hint = "B",
       .help = "adam, adamw: how much of the mean of squared gradients each step keeps.",
       .member = &Options::beta2,
       .rule = {.maximum = 1, .above_minimum = true, .below_maximum = true},
       .json_key = "/optimizer/beta2",
       .only_with = adam},
      {.name = "epsilon",
       .scope = kPerRun,
       .hint = "E",
       .help = "adam, adamw: what is added to the root that updates are divided by.",
       .member = &Options::epsilon,
       .rule = {.minimum = 1e-30},
       .json_key = "/optimizer/epsilon",
       .only_with = adam},
      {.name = "weight-decay",
       .scope = kPerRun,
       .hint = "D",
       .help = "sgd, adam: L2 penalty added to gradients. adamw: share of the weights, times the "
               "learning rate, that each step takes off.",
       .member = &Options::weight_decay,
       .default_text = "0 (adamw: 0.01)",
       .json_key = "/optimizer/weight_decay"},
      {.name = "lr-scaling",
       .scope = kPerRun,
       .help = "linear multiplies the learning rate by the number of devices.",
       .member = &Options::lr_scaling,
       .rule = one_of({"none", "linear"})},
  };
}

// How the learning rate changes from step to step, as PyTorch's schedulers.
Definitions schedule_options() {
  const OnlyWith step = {"lr-schedule", {"step"}}, cosine = {"lr-schedule", {"cosine"}};
  return {
      {.name = "lr-schedule",
       .scope = kPerRun,
       .help = "How the learning rate changes: not at all, by a factor every so many steps, or "
               "down "
               "along a cosine. Verification and timed training each begin it anew.",
       .member = &Options::lr_schedule,
       .rule = one_of({ops::kScheduleNames.begin(), ops::kScheduleNames.end()})},
      {.name = "lr-step-size",
       .scope = kPerRun,
       .hint = "N",
       .help = "step: every N steps the rate is multiplied by --lr-gamma.",
       .member = &Options::lr_step_size,
       .rule = between(1, kMostSteps),
       .default_text = "must be given",
       .only_with = step},
      {.name = "lr-gamma",
       .scope = kPerRun,
       .hint = "G",
       .help = "step: what the rate is multiplied by.",
       .member = &Options::lr_gamma,
       .rule = {.maximum = 1, .above_minimum = true},
       .only_with = step},
      {.name = "lr-cosine-steps",
       .scope = kPerRun,
       .hint = "N",
       .help = "cosine: after N steps the rate is --lr-min; then it rises again, as PyTorch's "
               "does.",
       .member = &Options::lr_cosine_steps,
       .rule = between(1, kMostSteps),
       .default_text = "all of the training after --lr-warmup-steps",
       .only_with = cosine},
      {.name = "lr-min",
       .scope = kPerRun,
       .hint = "RATE",
       .help = "cosine: the least rate.",
       .member = &Options::lr_min,
       .only_with = cosine},
      {.name = "lr-warmup-steps",
       .scope = kPerRun,
       .hint = "N",
       .help = "The first N steps of the training: the rate grows linearly, then the schedule "
               "begins. (--warmup-steps come before the training and are not timed.)",
       .member = &Options::lr_warmup_steps,
       .rule = between(0, kMostTimes)},
      {.name = "lr-warmup-factor",
       .scope = kPerRun,
       .hint = "F",
       .help = "The share of the rate from which it grows in the first --lr-warmup-steps.",
       .member = &Options::lr_warmup_factor,
       .rule = {.maximum = 1, .above_minimum = true},
       .only_with = {"lr-warmup-steps"}},
  };
}

Definitions strategy_options() {
  return {
      {.name = "overlap",
       .scope = kPerRun,
       .hint = "on|off,...",
       .help = "ddp, ps: send buckets or shards while backward still runs, or after it.",
       .member = &Options::overlaps,
       .bare_when_single = true},
      {.name = "bucket-cap-mb",
       .scope = kPerRun,
       .hint = "MIB,...",
       .help = "ddp: largest gradient bucket, in MiB.",
       .member = &Options::bucket_caps_mb,
       .rule = positive(),
       .bare_when_single = true},
      {.name = "first-bucket-mb",
       .scope = kPerRun,
       .hint = "MIB,...",
       .help = "ddp: the first bucket, in MiB; small, so that communication starts early.",
       .member = &Options::first_buckets_mb,
       .rule = positive(),
       .bare_when_single = true},
      {.name = "all-reduce",
       .scope = kPerRun | kOfComm,
       .help =
           "ddp: how gradients are summed. ring: 2 (n - 1) steps between n ranks, each with one "
           "neighbour; direct: 2 steps, each with all others. auto: what the backend does best; "
           "the report says which it was. nccl, gloo and mpi run their own and take auto only.",
       .member = &Options::all_reduces,
       .rule = one_of({comm::kAllReduceAlgorithms.begin(), comm::kAllReduceAlgorithms.end()}),
       .bare_when_single = true},
      {.name = "devices-per-process",
       .scope = kPerRun | kPlannedByFit,
       .hint = "K,...",
       .help = "ddp: how many devices each process drives, with a thread and a rank for each "
               "(PyTorch's older DistributedDataParallel with several device_ids). It divides "
               "--gpus.",
       .member = &Options::devices_per_process,
       .rule = between(1, kMostDevices),
       .bare_when_single = true},
      {.name = "broadcast-buffers",
       .scope = kPerRun,
       .hint = "on|off",
       .help = "ddp: before each step all ranks take rank 0's running statistics (PyTorch's "
               "buffers), "
               "or each keeps its own; only for networks that have some.",
       .member = &Options::broadcast_buffers},
      {.name = "sync-batch-norm",
       .scope = kPerRun | kPlannedByFit,
       .hint = "on|off",
       .help = "Batch norm takes mean and variance of the global batch, which the devices exchange "
               "within forward and backward (PyTorch's SyncBatchNorm), or each device those of its "
               "own samples. A network without batch norm is refused.",
       .member = &Options::sync_batch_norm},
      {.name = "servers",
       .scope = kPerRun | kPlannedByFit,
       .hint = "N,...",
       .help = "ps: server processes, each with a shard of the parameters.",
       .member = &Options::server_counts,
       .rule = between(1, kMostDevices),
       .bare_when_single = true},
      {.name = "ps-update",
       .scope = kPerRun | kPlannedByFit,
       .help = "ps: who updates. Workers pull parameters from a server that does, averaged "
               "gradients "
               "from one that does not.",
       .member = &Options::ps_updates,
       .rule = one_of({"server", "worker"}),
       .bare_when_single = true},
      {.name = "server-device",
       .scope = kPerRun | kPlannedByFit,
       .help = "ps: kind of device that servers are on, beside workers on GPUs; auto: as the "
               "workers. "
               "On "
               "cpu a server takes cores and no GPU, and shards pass through page-locked host "
               "memory.",
       .member = &Options::server_device,
       .rule = one_of({"auto", "cpu", "cuda"})},
      {.name = "threads-per-device",
       .scope = kPlannedByFit,
       .hint = "N",
       .help = "Compute threads of a CPU device, the same for every run of a report.",
       .member = &Options::threads_per_device,
       .rule = between(1, kMostThreads)},
      {.name = "loader-workers",
       .scope = kPerRun | kPlannedByFit,
       .hint = "N",
       .help = "Threads a rank that assemble batches ahead; 0: the training thread does it.",
       .member = &Options::loader_workers,
       .rule = between(0, kMostThreads)},
      {.name = "loader-cost",
       .scope = kPerRun,
       .hint = "US",
       .help = "Microseconds of processor time that loader workers spend on each training "
               "sample, as "
               "transforms in Python would; runs are marked with it.",
       .member = &Options::loader_cost_us,
       .rule = between(0, 1e6)},
      {.name = "emulate-gil",
       .scope = kPerRun,
       .hint = "US",
       .help = "Microseconds of processor time to launch each call of a layer, forward and "
               "backward, "
               "under one lock a process: dp's replicas share it as threads of Python would, and "
               "ddp's with --devices-per-process; other ranks have their own; runs are marked with "
               "it.",
       .member = &Options::emulate_gil_us,
       .rule = between(0, 1e6)},
      {.name = "oversubscribe",
       .scope = kOfComm,
       .help = "Let ranks share GPUs when there are fewer than asked for; such runs are marked.",
       .member = &Options::oversubscribe},
  };
}

}  // namespace

Definitions training_definitions() {
  Definitions all;
  for (Definitions part :
       {in_group("What to compare", comparison_options()), in_group("Training", training_options()),
        in_group("Training", optimizer_options()), in_group("Training", schedule_options()),
        in_group("Strategies and devices", strategy_options())})
    std::ranges::move(part, std::back_inserter(all));
  return all;
}

}  // namespace ddpbench::bench
