// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/strategy.h"

#include <numeric>

#include "base/error.h"
#include "parallel/data_parallel.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/parameter_server.h"
#include "parallel/single_device.h"

namespace ddpbench {
namespace {

std::vector<int> first_integers(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// One process that feeds device 0 with the whole global batch.
StrategyPlan one_process(const StrategyConfig& config, int devices) {
  StrategyPlan plan;
  plan.processes.push_back({.role = Role::worker,
                            .replicas = first_integers(devices),
                            .shards = first_integers(config.replicas),
                            .batch = config.per_device_batch * config.replicas});
  return plan;
}

// One process a replica, each fed its own shard.
StrategyPlan process_per_replica(const StrategyConfig& config) {
  StrategyPlan plan;
  for (int r = 0; r < config.replicas; ++r) {
    plan.processes.push_back(
        {.role = Role::worker, .replicas = {r}, .shards = {r}, .batch = config.per_device_batch});
  }
  return plan;
}

}  // namespace

void Strategy::report(PhaseObserver&) {}

void Strategy::serve() { throw InternalError("this strategy has no servers"); }

StrategyPlan plan_strategy(const StrategyConfig& config) {
  if (config.replicas < 1 || config.per_device_batch < 1) {
    throw ConfigError(fmt::format("{}: {} devices with a batch of {} each cannot train",
                                  config.strategy, config.replicas, config.per_device_batch));
  }
  StrategyPlan plan;
  if (config.strategy == "single" || config.strategy == "reference") {
    if (config.strategy == "single" && config.replicas != 1) {
      throw ConfigError(
          fmt::format("strategy single uses 1 device, but {} were asked for", config.replicas));
    }
    plan = one_process(config, 1);
  } else if (config.strategy == "dp") {
    plan = one_process(config, config.replicas);
  } else if (config.strategy == "ddp") {
    plan = process_per_replica(config);
  } else if (config.strategy == "ps") {
    if (config.servers < 1) throw ConfigError("strategy ps needs at least 1 server (--servers)");
    plan = process_per_replica(config);
    ProcessPlan server;
    server.role = Role::server;
    plan.processes.resize(plan.processes.size() + static_cast<std::size_t>(config.servers), server);
  } else {
    throw ConfigError(fmt::format("unknown strategy '{}'", config.strategy));
  }
  plan.sampler_shards = config.replicas;
  plan.global_batch = config.per_device_batch * config.replicas;
  return plan;
}

std::unique_ptr<Strategy> make_strategy(const StrategyConfig& config) {
  if (config.strategy == "single" || config.strategy == "reference") {
    return std::make_unique<SingleDevice>(config);
  }
  if (config.strategy == "dp") return std::make_unique<DataParallel>(config);
  if (config.strategy == "ddp") return std::make_unique<DistributedDataParallel>(config);
  if (config.strategy == "ps") return std::make_unique<ParameterServer>(config);
  throw InternalError(fmt::format("no strategy '{}'", config.strategy));
}

}  // namespace ddpbench
