// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/planned_run.h"

#include <fmt/format.h>

#include "parallel/strategies.h"

namespace ddpbench::bench {

report::Run planned_run(const TrainingJob& job) {
  report::Run run;
  run.strategy = job.cell.strategy;
  run.world_size = job.cell.world_size;
  run.servers = job.cell.servers;
  run.repetition = job.cell.repetition;
  run.device = job.options.device;
  run.threads_per_device = job.options.threads_per_device;
  run.backend = job.backend;
  run.precision = job.options.precision;
  run.model = job.options.model;
  run.optimizer_name = job.options.optimizer;
  run.optimizer = {{"lr", job.lr},
                   {"momentum", job.options.momentum},
                   {"weight_decay", job.options.weight_decay}};
  run.per_device_batch_size = job.per_device_batch;
  run.global_batch_size = job.global_batch();
  run.scaling_mode = job.cell.is_strong() ? "strong" : "weak";
  run.oversubscribed = job.oversubscribed;
  run.dataset_name = job.dataset.name;
  run.dataset_source = job.dataset.source;
  run.train_samples = job.dataset.train_samples;
  run.test_samples = job.dataset.test_samples;
  const StrategyTraits& traits = strategy_traits(run.strategy);
  if (traits.overlaps) run.strategy_options["overlap"] = job.cell.overlap ? "on" : "off";
  if (traits.uses_buckets) {
    run.strategy_options["first_bucket_mb"] = fmt::format("{}", job.cell.first_bucket_mb);
    run.strategy_options["bucket_cap_mb"] = fmt::format("{}", job.cell.bucket_cap_mb);
  }
  if (!job.all_reduce.empty()) run.strategy_options["all_reduce"] = job.all_reduce;
  if (traits.has_servers) {
    run.strategy_options["ps_update"] = job.cell.ps_update;
    // CUDA runs have this choice. Runs on CPU devices keep the names that they had.
    if (run.device == "cuda") run.strategy_options["server_device"] = job.options.server_device;
  }
  if (run.device == "cuda" && traits.records_steps) {
    run.strategy_options["cuda_graph"] = records_steps(job) ? "on" : "off";
  }
  const auto processes = static_cast<int>(plan_strategy(strategy_config(job)).processes.size());
  for (const Injection& injection : job.options.injections) {
    // stale names a replica, other kinds a process. A run without it is not concerned.
    if (injection.rank >= (injection.kind == "stale" ? job.cell.world_size : processes)) continue;
    run.injected += (run.injected.empty() ? "" : " ") + injection.text;
  }
  return run;
}

}  // namespace ddpbench::bench
