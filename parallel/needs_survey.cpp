// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The survey's StrategyContext::admit throws, which ends the setup. Until then a strategy uses its
// peers for one thing alone: the workers of ps tell the servers the size of the parameters.
#include "parallel/needs_survey.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "parallel/comm/communicator.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"

namespace ddpbench {
namespace {

// Ends a setup whose needs are known.
struct NeedsKnown {};

// Stands for the ranks of the job. Rank 0's broadcast of its plan is kept for the others.
class AbsentPeers final : public comm::Communicator {
 public:
  AbsentPeers(int rank, int size, Device& device, PlanSummary& summary)
      : Communicator(rank, size), device_(device), summary_(summary) {}

  std::string backend() const override { return "none"; }
  double timeout_s() const noexcept override { return 0; }
  void group_start() override {}
  void group_end() override {}
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string&) noexcept override {}
  void check() override {}

 protected:
  comm::Work issue(const comm::Operation& operation, const comm::CallOptions& options) override {
    const std::size_t bytes = sizeof(PlanSummary);
    ensure(operation.kind == comm::OperationKind::broadcast &&
               operation.in.count * sizeof(std::int64_t) == bytes,
           "a call of absent peers: {}", comm::describe(operation));
    const BufferView theirs{static_cast<std::byte*>(operation.in.data), bytes};
    const BufferView ours{reinterpret_cast<std::byte*>(&summary_), bytes};
    if (options.after != nullptr) options.after->synchronize();  // it writes this memory
    const auto stream = device_.make_stream();
    const bool sends = rank() == operation.root;
    device_.copy(*stream, sends ? ours : theirs, sends ? theirs : ours);
    stream->synchronize();
    return {};
  }

 private:
  Device& device_;
  PlanSummary& summary_;
};

// Stands for the threads of one rank: the first two replicas are surveyed in turn. All others
// are like the second.
class FirstReplicas final : public ReplicaGroup {
 public:
  explicit FirstReplicas(std::size_t size) : size_(size) {}
  void run(const std::function<void(std::size_t)>& work,
           const std::function<void(const char*)>&) override {
    for (std::size_t i = 0; i < std::min<std::size_t>(size_, 2); ++i) {
      try {
        work(i);
      } catch (const NeedsKnown&) {
        continue;
      }
      throw InternalError("a setup went on after its needs were known");
    }
    throw NeedsKnown{};
  }

 private:
  std::size_t size_;
};

}  // namespace

void survey_needs(const StrategyConfig& config, const nn::ModelSpec& model,
                  const SurveyPlace& workers, const SurveyPlace& servers,
                  const std::function<void(const AlikeDevices&, MemoryNeeds&)>& told) {
  const std::vector<RankPlan> ranks = plan_strategy(config).ranks;
  PlanSummary summary;
  const auto survey = [&](int rank, int alike, const SurveyPlace& place) {
    const RankPlan& plan = ranks[static_cast<std::size_t>(rank)];
    const std::size_t devices = std::max<std::size_t>(1, plan.replicas.size());
    AbsentPeers peers(rank, static_cast<int>(ranks.size()), place.device, summary);
    FirstReplicas group(devices);
    StrategyContext context;
    context.model = &model;
    context.devices.assign(devices, &place.device);
    context.backends.assign(devices, &place.backend);
    context.world = ranks.size() > 1 ? &peers : nullptr;
    AbsentPeers alike_peers(0, config.replicas, place.device, summary);
    if (config.stages > 1 && config.replicas > 1) context.alike = &alike_peers;
    context.group = devices > 1 ? &group : nullptr;
    context.admit = [&](std::size_t i, MemoryNeeds& needs) {
      const int others = static_cast<int>(devices) - 1;
      told({rank, i, i == 0 ? alike : others, plan.role}, needs);
      throw NeedsKnown{};
    };
    try {
      make_strategy(config)->setup(context);
    } catch (const NeedsKnown&) {
      return;
    }
    throw InternalError("a setup went on after its needs were known");
  };
  const auto server_count =
      static_cast<int>(std::ranges::count(ranks, Role::server, &RankPlan::role));
  const int worker_count = static_cast<int>(ranks.size()) - server_count;
  // The first replica's ranks, where each has a part of the layers.
  for (int stage = 0; stage < config.stages; ++stage) {
    survey(stage, worker_count / config.stages, workers);
  }
  if (server_count > 0) survey(worker_count, server_count, servers);
}

}  // namespace ddpbench
