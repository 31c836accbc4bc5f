// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/rank/evaluation.h"
#include "reports/data/run_names.h"

namespace ddpbench::bench {
namespace {

std::string advice(const RunSpec& spec, bool server) {
  std::vector<std::string> ways;
  if (server) {
    ways.emplace_back("more servers (--servers)");
  } else {
    const bool strong = !spec.options.global_batch_sizes.empty();
    ways.emplace_back(strong ? "a smaller --global-batch-size" : "a smaller --batch-size");
  }
  if (spec.options.residency == "device" && !server) ways.emplace_back("--residency=host");
  const bool gpu = spec.options.device == "cuda";
  if (gpu && !server && spec.options.precision != "bf16") ways.emplace_back("--precision=bf16");
  return fmt::format("use {}", fmt::join(ways, ", or "));
}

std::string described(const RunSpec& spec, const ProcessPlan& process) {
  const std::string run =
      spec.is_reference()
          ? fmt::format("the reference of {} slices", spec.cell.world_size)
          : report::name_of(spec.cell.strategy, spec.cell.world_size, spec.cell.servers);
  if (process.role == Role::server) return "a server of " + run;
  return fmt::format("{} with a batch of {} per device", run, spec.per_device_batch);
}

}  // namespace

BatchSourceOptions batch_source_options(const RunSpec& spec, const ProcessPlan& process) {
  BatchSourceOptions options;
  options.samples = static_cast<std::size_t>(process.batch);
  options.image_bytes = spec.dataset.sample_bytes() * sizeof(float);
  options.loader.normalization = {spec.options.dataset_mean, spec.options.dataset_std};
  options.loader.workers = spec.options.loader_workers;
  // Cores are dealt out to CPU devices; beside GPUs all are free.
  if (spec.gpus.empty()) {
    options.loader.worker_cores = spec.cores.at(static_cast<std::size_t>(process.replicas[0]));
  }
  options.loader.shards = process.shards;
  return options;
}

void add_session_memory(const RunSpec& spec, const ProcessPlan& process,
                        const data::Dataset& dataset, std::size_t i, MemoryNeeds& needs) {
  const bool server = process.role == Role::server;
  if (!server && i == 0) {
    const BatchSourceOptions options = batch_source_options(spec, process);
    if (spec.options.residency == "device") {
      add_resident_source(needs, dataset.train, make_sampler(spec), options);
    } else {
      add_loader_source(needs, options);
    }
  }
  if (!server && !spec.is_reference()) Evaluator::add_memory(needs, spec, dataset.test);
}

MemoryClaim memory_claim(const RunSpec& spec, const ProcessPlan& process,
                         const MemoryNeeds& needs) {
  MemoryClaim claim =
      needs.claim(described(spec, process), advice(spec, process.role == Role::server));
  // With a global batch size the others would have more each.
  if (spec.options.global_batch_sizes.empty()) {
    claim.shared_advice = needs.device().kind() == DeviceKind::cuda ? ", or fewer devices on a GPU"
                                                                    : ", or fewer devices (--gpus)";
  }
  return claim;
}

}  // namespace ddpbench::bench
