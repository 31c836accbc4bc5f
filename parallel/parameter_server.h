// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ps`: synchronous parameter server (Li et al., OSDI 2014). Parameters are cut into one contiguous
// shard a server. In each step every worker pushes its gradient shards, and each server averages
// them in rank order. Then workers pull new parameters (update on the server) or averaged gradients
// (update on the workers).
//
// Wire, per step, for S bytes of parameters, N workers and M servers: a worker sends S and receives
// S; a server receives N S/M and sends N S/M.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/ops/mean.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/replica.h"
#include "parallel/server_shard.h"
#include "parallel/strategy.h"

namespace ddpbench {

// The worker's side. On a server it hands all calls to a ServerShard.
class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(StrategyConfig config) : config_(std::move(config)) {}
  // One process a worker, then one a server. Throws ConfigError when there is no server.
  static std::vector<ProcessPlan> plan(const StrategyConfig& config);
  ~ParameterServer() override;

  void setup(const StrategyContext& context) override;
  void step(const StepInput& input) override;
  void report(PhaseObserver& observer) override;
  void serve() override;
  void reset() override;
  void finish() override;
  std::vector<Replica*> replicas() override;

 private:
  bool is_server() const { return context_.world->rank() >= config_.replicas; }
  void setup_worker();
  std::vector<PlannedBuffer> planned_buffers(std::size_t flat_bytes);
  std::array<const Buffer*, kRegisteredBuffers> registered() const;
  void write_commands(ServerCommand command);
  void command_all(ServerCommand command);
  void push_shard(std::size_t shard);
  void pull();
  void report_transfer(PhaseObserver& observer, std::size_t bucket, double ready_s,
                       std::size_t shard, const comm::WorkTimes& times);
  comm::Elements pulled(std::size_t shard) const;
  comm::Elements elements_of(const Buffer& flat, std::size_t shard) const;

  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<ServerShard> server_;     // on a server only
  std::unique_ptr<Replica> replica_;        // on a worker only, as are the members below
  Buffer commands_;                         // one ServerCommand a server
  Buffer stale_sink_;                       // where a planted stale worker pulls to
  std::optional<GradientBucketer> shards_;  // the shards, started in order
  nn::GradientReady ready_;                 // made once: no allocation in a step
  std::vector<comm::Work> pushes_, pulls_;  // [server]
  std::vector<std::unique_ptr<Event>> ready_events_;
  std::int64_t step_ = 0;  // steps since the last reset
};

}  // namespace ddpbench
