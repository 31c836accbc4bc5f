// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/rank/evaluation.h"
#include "reports/data/run_names.h"

namespace ddpbench::bench {
namespace {

std::string advice(const TrainingJob& job, bool server) {
  std::vector<std::string> ways;
  if (server) {
    ways.emplace_back("more servers (--servers)");
  } else {
    const bool strong = job.cell.is_strong();
    ways.emplace_back(strong ? "a smaller --global-batch-size" : "a smaller --batch-size");
  }
  if (job.options.residency == "device" && !server) ways.emplace_back("--residency=host");
  const bool gpu = job.options.device == "cuda";
  if (gpu && !server && job.options.precision != "bf16") ways.emplace_back("--precision=bf16");
  return fmt::format("use {}", fmt::join(ways, ", or "));
}

std::string described(const TrainingJob& job, const ProcessPlan& process) {
  const std::string run =
      job.is_reference()
          ? fmt::format("the reference of {} slices", job.cell.world_size)
          : report::name_of(job.cell.strategy, job.cell.world_size, job.cell.servers);
  if (process.role == Role::server) return "a server of " + run;
  return fmt::format("{} with a batch of {} per device", run, job.per_device_batch);
}

}  // namespace

BatchSourceOptions batch_source_options(const TrainingJob& job, const ProcessPlan& process) {
  BatchSourceOptions options;
  options.samples = static_cast<std::size_t>(process.batch);
  options.image_bytes = job.dataset.sample_bytes() * sizeof(float);
  options.loader.normalization = {job.options.dataset_mean, job.options.dataset_std};
  options.loader.workers = job.options.loader_workers;
  // Cores are dealt out to CPU devices; beside GPUs all are free.
  if (job.gpus.empty()) {
    options.loader.worker_cores = job.cores.at(static_cast<std::size_t>(process.replicas[0]));
  }
  options.loader.shards = process.shards;
  return options;
}

void add_session_memory(const TrainingJob& job, const ProcessPlan& process,
                        const data::Dataset& dataset, std::size_t i, MemoryNeeds& needs) {
  const bool server = process.role == Role::server;
  if (!server && i == 0) {
    const BatchSourceOptions options = batch_source_options(job, process);
    if (job.options.residency == "device") {
      add_resident_source(needs, dataset.train, make_sampler(job), options);
    } else {
      add_loader_source(needs, options);
    }
  }
  if (!server && !job.is_reference()) Evaluator::add_memory(needs, job, dataset.test);
}

MemoryClaim memory_claim(const TrainingJob& job, const ProcessPlan& process,
                         const MemoryNeeds& needs) {
  MemoryClaim claim =
      needs.claim(described(job, process), advice(job, process.role == Role::server));
  // With a global batch size the others would have more each.
  if (!job.cell.is_strong()) {
    claim.shared_advice = needs.device().kind() == DeviceKind::cuda ? ", or fewer devices on a GPU"
                                                                    : ", or fewer devices (--gpus)";
  }
  return claim;
}

}  // namespace ddpbench::bench
