// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/run_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json_members.h"
#include "bench/rank/evaluation.h"
#include "bench/rank/rank_devices.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/needs_survey.h"
#include "parallel/strategies.h"

namespace ddpbench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryClaim, pool, what, device, advice, shared_advice, bytes,
                                   free_bytes, kind, least_free_bytes, by_category)

}  // namespace ddpbench

namespace ddpbench::bench {
namespace {

// The time between two looks at whether the others have come.
constexpr auto kLook = std::chrono::milliseconds(5);

std::string claim_key(int index) { return fmt::format("memory/{}", index); }

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
  if (job.is_reference() && job.synchronises_batch_norm()) ways.emplace_back("--verify-steps=0");
  return fmt::format("use {}", fmt::join(ways, ", or "));
}

std::string described(const TrainingJob& job, const RankPlan& plan) {
  if (job.is_reference() && job.synchronises_batch_norm()) {
    return fmt::format("the reference, which takes the global batch of {} at once,",
                       job.global_batch());
  }
  const std::string run = job.is_reference()
                              ? fmt::format("the reference of {} slices", job.cell.world_size)
                              : run_name(job);
  if (plan.role == Role::server) return "a server of " + run;
  return fmt::format("{} with a batch of {} per device", run, job.per_device_batch);
}

std::string role_of(const AlikeDevices& alike, const RankPlan& plan) {
  if (alike.role == Role::server) return "a server";
  if (plan.replicas.size() == 1) return "the device";
  return alike.device == 0 ? "the primary device" : "another device";
}

PlanningDevice make_planning_device(const TrainingJob& job, int index) {
  PlanningDevice place;
  place.device = make_device(device_plan(job), index);
  place.device->bind_calling_thread();
  place.backend = make_backend(job, *place.device);
  return place;
}

}  // namespace

void ClaimExchange::await_plans(int index) const { await_all(index, "has not planned"); }

std::vector<MemoryClaim> ClaimExchange::exchange(int index, const MemoryClaim& own) const {
  options_.store->set(claim_key(index), nlohmann::json(own).dump());
  await_all(index, "did not report its memory needs");
  std::vector<MemoryClaim> same;
  std::optional<std::size_t> least;
  for (int device = 0; device < options_.devices; ++device) {
    MemoryClaim claim = own;
    if (device != index) {
      claim = nlohmann::json::parse(options_.store->get(claim_key(device), options_.timeout_s));
    }
    if (claim.kind == own.kind && claim.free_bytes) {
      least = std::min(*claim.free_bytes, least.value_or(*claim.free_bytes));
    }
    const bool shares = !own.pool.empty() && claim.pool == own.pool;
    if (device == index || shares) same.push_back(std::move(claim));
  }
  for (MemoryClaim& claim : same) claim.least_free_bytes = least;
  return same;
}

// Waits by counters, which answer at once. A store drops the connection of a wait that times out.
void ClaimExchange::await_all(int index, const std::string& what) const {
  const comm::Deadline deadline = comm::deadline_after(options_.timeout_s);
  const auto key = [&](int device) { return fmt::format("memory/{} {}", device, what); };
  options_.store->add(key(index), 1);
  for (int device = 0; device < options_.devices; ++device) {
    while (options_.store->add(key(device), 0) == 0) {
      if (options_.check_peers) options_.check_peers();
      if (comm::has_passed(deadline)) {
        throw CommTimeout(fmt::format("device {} of {} {} within {} s (--timeout)", device,
                                      options_.devices, what, options_.timeout_s));
      }
      std::this_thread::sleep_for(kLook);
    }
  }
}

BatchSourceOptions batch_source_options(const TrainingJob& job, const RankPlan& plan) {
  BatchSourceOptions options;
  options.samples = static_cast<std::size_t>(plan.batch);
  options.image_bytes = job.dataset.sample_bytes() * sizeof(float);
  options.labels_per_sample = static_cast<std::size_t>(job.dataset.labels_per_sample());
  options.loader.ignored_label = job.network.ignored_label;
  options.loader.normalization = normalization_of(job);
  options.loader.augment = job.options.augment;
  options.loader.workers = job.options.loader_workers;
  options.loader.sample_cost_s = job.options.loader_cost_us * 1e-6;
  // Cores are dealt out to CPU devices; beside GPUs all cores are free.
  for (const int replica : plan.replicas) {
    if (!job.gpus.empty()) break;
    const std::vector<int>& cores = job.cores.at(static_cast<std::size_t>(replica));
    options.loader.worker_cores.insert(options.loader.worker_cores.end(), cores.begin(),
                                       cores.end());
  }
  options.loader.shards = plan.shards;
  return options;
}

void add_session_memory(const TrainingJob& job, const RankPlan& plan, const data::Dataset& dataset,
                        std::size_t i, MemoryNeeds& needs) {
  const bool server = plan.role == Role::server;
  if (!server && i == 0) {
    const BatchSourceOptions options = batch_source_options(job, plan);
    if (job.options.residency == "device") {
      add_resident_source(needs, dataset.train, make_sampler(job), options);
    } else {
      add_loader_source(needs, options);
    }
  }
  if (!server && !job.is_reference()) Evaluator::add_memory(needs, job, dataset.test);
}

MemoryClaim memory_claim(const TrainingJob& job, const RankPlan& plan, const MemoryNeeds& needs) {
  MemoryClaim claim = needs.claim(described(job, plan), advice(job, plan.role == Role::server));
  // With a global batch size, fewer devices would have larger batches each.
  if (!job.cell.is_strong()) {
    claim.shared_advice = needs.device().kind() == DeviceKind::cuda ? ", or fewer devices on a GPU"
                                                                    : ", or fewer devices (--gpus)";
  }
  return claim;
}

void add_planning_devices(const TrainingJob& job, PlanningDevices& devices) {
  if (!devices.workers.device) devices.workers = make_planning_device(job, 0);
  if (!job.has_cpu_servers() || devices.servers.device) return;
  devices.servers = make_planning_device(job, job.cell.world_size);
}

std::vector<int> processes_of_devices(const TrainingJob& job) {
  const StrategyPlan plan = plan_strategy(strategy_config(job));
  std::vector<int> processes;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::size_t devices = std::max<std::size_t>(1, plan.ranks[rank].replicas.size());
    processes.insert(processes.end(), devices, static_cast<int>(rank) / plan.ranks_per_process);
  }
  return processes;
}

std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevices& devices) {
  const StrategyConfig config = strategy_config(job);
  const std::vector<RankPlan> ranks = plan_strategy(config).ranks;
  const bool apart = job.has_cpu_servers();
  const PlanningDevice& of_servers = apart ? devices.servers : devices.workers;
  std::vector<PlannedDevice> planned;
  int first = 0;
  survey_needs(config, model, {*devices.workers.device, *devices.workers.backend},
               {*of_servers.device, *of_servers.backend},
               [&](const AlikeDevices& alike, MemoryNeeds& needs) {
                 const RankPlan& plan = ranks.at(static_cast<std::size_t>(alike.rank));
                 add_session_memory(job, plan, dataset, alike.device, needs);
                 planned.push_back({.role = role_of(alike, plan),
                                    .first = first,
                                    .count = alike.count,
                                    .on_host = apart && alike.role == Role::server,
                                    .bytes = needs.added_bytes(),
                                    .by_category = needs.by_category()});
                 first += alike.count;
               });
  return planned;
}

}  // namespace ddpbench::bench
