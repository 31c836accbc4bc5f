// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ps`: synchronous parameter server (Li et al., OSDI 2014). Parameters are cut into one contiguous
// shard a server. In each step every worker pushes its gradient shards, and each server averages
// them in rank order. Then workers pull new parameters (update on the server) or averaged gradients
// (update on the workers).
//
// Each worker keeps the state of its own graph (running statistics); nothing sends it.
//
// Wire, per step, for S bytes of parameters, N workers and M servers: a worker sends S and receives
// S; a server receives N S/M and sends N S/M.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kernels/ops/flat_ops.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/replica.h"
#include "parallel/server_shard.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

// The worker's side. On a server it hands all calls to a ServerShard.
class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(StrategyConfig config) : config_(std::move(config)) {}

  ~ParameterServer() override {
    // Collective, in the order in which the servers deregister theirs.
    if (!replica_) return;
    for (const Buffer* buffer : registered()) deregister_quietly(*context_.world, *buffer);
  }

  void setup(const StrategyContext& context) override {
    context_ = context;
    if (context.world == nullptr) throw InternalError("ps needs a communicator");
    if (is_server()) {
      server_ = std::make_unique<ServerShard>(config_, context_,
                                              context.world->rank() - config_.replicas);
    } else {
      setup_worker();
      reset();
    }
  }

  void step(const StepInput& input) override {
    const float scale = 1.0f / static_cast<float>(config_.per_device_batch);
    forward_and_loss(*replica_, input, places_of(config_, context_.world->rank()), scale,
                     context_.observer);
    shards_->begin_pass();
    Stream& stream = replica_->stream();
    {
      const ScopedPhase phase(context_.observer, Phase::backward, stream);
      replica_->backward(ready_);
    }
    {
      const ScopedPhase phase(context_.observer, Phase::push, stream);
      for (const comm::Work& push : pushes_) push.wait(stream);
    }
    pull();
    if (config_.ps_update == PsUpdate::worker) {
      const ScopedPhase phase(context_.observer, Phase::optimizer, stream);
      replica_->update(config_.faults.gradient_factor(config_.replicas));
    }
    replica_->end_step();
    ++step_;
  }

  // Reports pushes, then pulls, numbered on. Between the transfers of a shard its server works.
  void report(PhaseObserver& observer) override {
    const std::vector<Bucket>& shards = shards_->buckets();
    const std::size_t servers = shards.size();
    for (std::size_t s = 0; s < servers; ++s) {
      report_transfer(observer, s, shards[s].bytes, ready_events_[s]->time_s(),
                      pushes_[2 * s + 1].times());
    }
    for (std::size_t s = 0; s < servers; ++s) {
      const comm::WorkTimes pull = pulls_[s].times();
      report_transfer(observer, servers + s, shards[s].bytes, pull.start_s, pull);
    }
  }

  void serve() override {
    ensure(server_ != nullptr, "rank {} is no server", context_.world->rank());
    server_->serve();
  }

  void reset() override {
    step_ = 0;
    replica_->reset();
    send_parameters(ServerCommand::reset);
  }

  void assign_parameters(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
    send_parameters(ServerCommand::assign);
  }

  void fetch_gradients() override {
    if (config_.ps_update == PsUpdate::worker) return;  // they were pulled
    command_all(ServerCommand::gradients);
    receive_shards(replica_->graph().gradients(), false);
    write_commands(ServerCommand::push);
  }

  void assign_state(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
  }
  void finish() override {
    if (replica_) command_all(ServerCommand::goodbye);
  }
  std::vector<Replica*> replicas() override {
    return replica_ ? std::vector{replica_.get()} : std::vector<Replica*>{};
  }

 private:
  bool is_server() const { return context_.world->rank() >= config_.replicas; }

  void setup_worker() {
    Device& device = *context_.devices[0];
    const auto servers = static_cast<std::size_t>(config_.servers);
    // A server learns from the workers' plan what it needs. No memory is allocated before all have
    // said what they need.
    const auto add = [&](const nn::ParameterPlan& plan, MemoryNeeds& needs) {
      const auto hash = combine_hash(plan.hash, static_cast<std::uint64_t>(config_.servers));
      const PlanSummary own{hash, plan.flat_bytes};
      agree_on_plan(*context_.world, device, &own);
      needs.add(planned_buffers(plan.flat_bytes));
    };
    synced_ = make_synced_batch(config_, context_, 0);
    replica_ = make_replica(config_, context_, 0,
                            {{.parts = synced_.get(),
                              .gradient_sharing = Sharing::mappable,
                              .weight_sharing = Sharing::mappable,
                              .admit = add},
                             0,
                             config_.ps_update == PsUpdate::worker});
    const nn::ParameterPlan& plan = replica_->graph().plan();
    allocate(device, planned_buffers(plan.flat_bytes));
    // Registration is collective: the servers register as many buffers, in the same order.
    for (const Buffer* buffer : registered()) context_.world->register_buffer(*buffer);
    shards_.emplace(plan_shards(plan.flat_bytes, config_.servers, &plan),
                    [this](std::size_t shard) { push_shard(shard); });
    ready_ = [this](std::size_t parameter) { shards_->ready(parameter); };
    pushes_.resize(2 * servers);
    pulls_.resize(servers);
    for (std::size_t s = 0; s < servers; ++s) ready_events_.push_back(device.make_event());
  }

  std::vector<PlannedBuffer> planned_buffers(std::size_t flat_bytes) {
    const auto servers = static_cast<std::size_t>(config_.servers);
    const bool stale = config_.faults.stale_replica == context_.world->rank();
    return {{&commands_, MemoryCategory::communication, servers * sizeof(ServerCommand),
             Sharing::mappable},
            {&stale_sink_, MemoryCategory::communication, stale ? flat_bytes : sizeof(float),
             Sharing::mappable}};
  }

  std::array<const Buffer*, kRegisteredBuffers> registered() const {
    return {&commands_, &replica_->graph().gradients(), &replica_->graph().weights(), &stale_sink_};
  }

  // Writes `command` into the buffers that commands are sent from.
  void write_commands(ServerCommand command) {
    std::vector<ServerCommand> commands(static_cast<std::size_t>(config_.servers), command);
    const std::size_t bytes = commands.size() * sizeof(command);
    context_.devices[0]->copy(replica_->stream(), commands_.view().slice(0, bytes),
                              {reinterpret_cast<std::byte*>(commands.data()), bytes});
    replica_->stream().synchronize();
  }

  // Sends every server the same command and waits until all have taken it.
  void command_all(ServerCommand command) {
    Stream& stream = replica_->stream();
    write_commands(command);
    for (int s = 0; s < config_.servers; ++s) {
      context_.world
          ->send({commands_.data() + static_cast<std::size_t>(s) * sizeof(command), 1,
                  DataType::int64},
                 config_.replicas + s, {.after = &stream, .start = comm::Start::deferred})
          .wait(stream);
    }
    stream.synchronize();
  }

  // Gives the servers their shards of the parameters, where they keep them, behind `command`.
  void send_parameters(ServerCommand command) {
    command_all(command);
    if (config_.ps_update == PsUpdate::server && context_.world->rank() == 0) {
      Stream& stream = replica_->stream();
      for (int s = 0; s < config_.servers; ++s) {
        context_.world
            ->send(elements_of(replica_->graph().weights(), static_cast<std::size_t>(s)),
                   config_.replicas + s, {.after = &stream, .start = comm::Start::deferred})
            .wait(stream);
      }
    }
    write_commands(ServerCommand::push);  // every round is a push until the next other command
  }

  // Called in shard order, after the shard's last gradient was queued.
  void push_shard(std::size_t s) {
    Stream& stream = replica_->stream();
    stream.record(*ready_events_[s]);
    const bool hidden = config_.overlap && s + 1 < shards_->buckets().size();
    const comm::CallOptions options{.after = &stream,
                                    .start = hidden ? comm::Start::now : comm::Start::deferred,
                                    .bucket = static_cast<int>(s)};
    const int server = config_.replicas + static_cast<int>(s);
    pushes_[2 * s] = context_.world->send(
        {commands_.data() + s * sizeof(ServerCommand), 1, DataType::int64}, server, options);
    pushes_[2 * s + 1] =
        context_.world->send(elements_of(replica_->graph().gradients(), s), server, options);
  }

  // New parameters go straight into the weights, averaged gradients straight into the gradients.
  void pull() {
    const ScopedPhase phase(context_.observer, Phase::pull, replica_->stream());
    const nn::Graph& graph = replica_->graph();
    const bool is_stale = config_.faults.is_stale(context_.world->rank(), step_);
    receive_shards(is_stale                                ? stale_sink_
                   : config_.ps_update == PsUpdate::server ? graph.weights()
                                                           : graph.gradients(),
                   true);
  }

  // Each server sends its shard of `flat`.
  void receive_shards(const Buffer& flat, bool as_buckets) {
    Stream& stream = replica_->stream();
    context_.world->group_start();
    for (std::size_t s = 0; s < pulls_.size(); ++s) {
      const int bucket = as_buckets ? static_cast<int>(pulls_.size() + s) : -1;
      pulls_[s] = context_.world->recv(
          elements_of(flat, s), config_.replicas + static_cast<int>(s),
          {.after = &stream, .start = comm::Start::deferred, .bucket = bucket});
    }
    context_.world->group_end();
    for (const comm::Work& pull : pulls_) pull.wait(stream);
  }

  comm::Elements elements_of(const Buffer& flat, std::size_t shard) const {
    const Bucket& range = shards_->buckets()[shard];
    return flat_elements(flat.view().slice(range.offset_bytes, range.bytes));
  }

  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<ServerShard> server_;     // on a server only
  std::unique_ptr<SyncedBatch> synced_;     // null where nothing is exchanged
  std::unique_ptr<Replica> replica_;        // on a worker only, as are the members below
  Buffer commands_;                         // one ServerCommand a server
  Buffer stale_sink_;                       // where a planted stale worker pulls to
  std::optional<GradientBucketer> shards_;  // the shards, started in order
  nn::GradientReady ready_;                 // made once: no allocation in a step
  std::vector<comm::Work> pushes_, pulls_;  // [server]
  std::vector<std::unique_ptr<Event>> ready_events_;
  std::int64_t step_ = 0;  // steps since the last reset
};

}  // namespace

std::vector<RankPlan> plan_parameter_server(const StrategyConfig& config) {
  if (config.servers < 1) throw ConfigError("strategy ps needs at least 1 server (--servers)");
  std::vector<RankPlan> ranks = plan_rank_per_replica(config);
  for (int s = 0; s < config.servers; ++s) ranks.push_back({.role = Role::server});
  return ranks;
}

std::unique_ptr<Strategy> make_parameter_server(const StrategyConfig& config) {
  return std::make_unique<ParameterServer>(config);
}

}  // namespace ddpbench
