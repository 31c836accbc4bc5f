// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/strategies.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {

namespace {

void check_trace(const Options& options) {
  if (options.trace_path.empty()) return;
  if (!options.observe)
    throw ConfigError(
        fmt::format("--trace={}: --observe=off leaves nothing to trace", options.trace_path));
}

void check_global_batches(const Options& options) {
  const bool several = std::ranges::any_of(options.strategies, [](const std::string& name) {
    return !strategy_traits(name).is_baseline();
  });
  if (!several) return;
  for (const std::int64_t global : options.global_batch_sizes)
    for (const int devices : options.gpus)
      if (global % devices != 0)
        throw ConfigError(fmt::format(
            "--global-batch-size={} cannot be divided by --gpus={}: each of the {} devices must "
            "get the same number of samples. The next size that can is {}.",
            global, devices, devices, (global / devices + 1) * devices));
}

void check_limits(const Options& options) {
  if (options.warmup_max_steps && *options.warmup_max_steps < options.warmup_steps)
    throw ConfigError(fmt::format("--warmup-max-steps={} is below --warmup-steps={}.",
                                  *options.warmup_max_steps, options.warmup_steps));
  if (options.until_ci && options.max_repetitions < options.repetitions)
    throw ConfigError(fmt::format("--max-repetitions={} is below --repetitions={}.",
                                  options.max_repetitions, options.repetitions));
  if (options.until_ci && options.max_repetitions < report::kFewestForInterval)
    throw ConfigError(fmt::format(
        "--max-repetitions={} leaves --until-ci={}% no interval to look at: a 95 % interval of the "
        "median needs {} repetitions. Allow at least that many, or give --repetitions alone.",
        options.max_repetitions, options.until_ci->value, report::kFewestForInterval));
}

void check_cuda_graphs(const Options& options) {
  const auto& listed = options.cuda_graphs;
  if (listed.size() > 1 && std::ranges::find(listed, "auto") != listed.end())
    throw ConfigError("--cuda-graph=auto chooses on or off; to compare both, list on,off.");
}

void check_all_reduces(const Options& options) {
  const auto& listed = options.all_reduces;
  if (listed.size() > 1 && std::ranges::find(listed, "auto") != listed.end())
    throw ConfigError(
        "--all-reduce=auto chooses ring or direct; to compare both, list ring,direct.");
}

void check_augmentation(const Options& options) {
  if (options.augment && options.residency == "device")
    throw ConfigError(
        "--residency=device: devices assemble their batches without the crops and flips of "
        "\"dataset\": {\"augment\": true}; use --residency=host, or do not augment");
}

void check_loader_cost(const Options& options) {
  if (options.loader_cost_us > 0 && options.residency == "device")
    throw ConfigError(
        fmt::format("--loader-cost={}: with --residency=device no loader assembles batches; use "
                    "--residency=host",
                    options.loader_cost_us));
}

// PyTorch refuses it as well.
void check_nesterov(const Options& options) {
  if (options.nesterov && options.momentum == 0)
    throw ConfigError("--nesterov: it changes the momentum, and --momentum is 0");
}

void check_schedule(const Options& options) {
  if (options.lr_schedule == "step" && !options.lr_step_size)
    throw ConfigError("--lr-schedule=step needs --lr-step-size=N, the steps between two changes");
  if (options.lr_schedule == "cosine" && options.lr_min > options.lr)
    throw ConfigError(fmt::format("--lr-min={} is above --lr={}", options.lr_min, options.lr));
}

}  // namespace

std::int64_t warmup_limit(const RunOptions& options) {
  if (options.warmup_steps == 0) return 0;  // no warm-up at all
  return options.warmup_max_steps.value_or(kWarmupLimitFactor * options.warmup_steps);
}

void check_options(const Options& options) {
  check_cuda_graphs(options);
  check_all_reduces(options);
  check_trace(options);
  check_global_batches(options);
  check_limits(options);
  check_augmentation(options);
  check_loader_cost(options);
  check_nesterov(options);
  check_schedule(options);
}

}  // namespace ddpbench::bench
