// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/run_memory.h"

#include <algorithm>

#include "bench/rank/memory_check.h"
#include "bench/rank/rank_devices.h"
#include "parallel/needs_survey.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

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
