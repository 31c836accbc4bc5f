// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/run_memory.h"

#include "bench/rank/memory_check.h"
#include "bench/rank/rank_devices.h"
#include "parallel/needs_survey.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

std::string role_of(const AlikeDevices& alike, const ProcessPlan& process) {
  if (alike.role == Role::server) return "a server";
  if (process.replicas.size() == 1) return "the device";
  return alike.device == 0 ? "the primary device" : "another device";
}

}  // namespace

PlanningDevice make_planning_device(const TrainingJob& job) {
  PlanningDevice place;
  place.device = make_device(device_plan(job), 0);
  place.device->bind_calling_thread();
  place.backend = make_backend(job, *place.device);
  return place;
}

std::vector<PlannedDevice> plan_run_memory(const TrainingJob& job, const nn::ModelSpec& model,
                                           const data::Dataset& dataset,
                                           const PlanningDevice& place) {
  const StrategyConfig config = strategy_config(job);
  const std::vector<ProcessPlan> processes = plan_strategy(config).processes;
  std::vector<PlannedDevice> planned;
  survey_needs(config, model, *place.device, *place.backend,
               [&](const AlikeDevices& alike, MemoryNeeds& needs) {
                 const ProcessPlan& process = processes.at(static_cast<std::size_t>(alike.process));
                 add_session_memory(job, process, dataset, alike.device, needs);
                 planned.push_back({role_of(alike, process), alike.count, needs.added_bytes(),
                                    needs.by_category()});
               });
  return planned;
}

}  // namespace ddpbench::bench
