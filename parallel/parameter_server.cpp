// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ps`: parameter server (Li et al., OSDI 2014). Parameters are cut into one contiguous
// shard a server. In each step every worker pushes its gradient shards, and each server averages
// them in rank order. Then workers pull new parameters (update on the server) or averaged gradients
// (update on the workers).
//
// Each worker keeps the state of its own graph (running statistics); nothing sends it.
//
// With max_staleness, servers apply each push as it comes, and answer its worker alone (Ho et al.,
// NIPS 2013). With backup_workers, they take the first gradients of each step, and a late worker
// skips the steps that are done without it (Chen et al., 2016); each server takes its own first.
//
// Wire, per step, for S bytes of parameters, N workers and M servers: a worker sends S and receives
// S; a server receives N S/M and sends N S/M.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "parallel/gradient_exchange.h"
#include "parallel/replica.h"
#include "parallel/server_shard.h"
#include "parallel/step_parts.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

constexpr comm::CallOptions kDeferred{.after = nullptr, .start = comm::Start::deferred};

// The worker's side.
class PushAndPull final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void adapt(ReplicaOptions& options) override {
    options.gradient_sharing = options.weight_sharing = Sharing::mappable;
    options.updates = !on_server();
  }

  // A server learns from the workers' plan what it needs. No memory is allocated before all have
  // said what they need.
  void plan(const nn::ParameterPlan& plan, MemoryNeeds& needs) override {
    Buffer summary;
    needs.add(planned_summary(summary));
    const auto hash = combine_hash(plan.hash, static_cast<std::uint64_t>(config_.servers));
    const PlanSummary own{hash, plan.flat_bytes};
    agree_on_plan(world(), *context_.devices[0], &own);
  }

  // New parameters go straight into the weights, averaged gradients straight into the gradients,
  // and so do parameters that are to make no difference.
  void finish(bool stale) override {
    Stream& stream = replica_->stream();
    // A server is told once the one before has its shard: else two that wait for pushes of two
    // workers in different orders would wait for each other.
    for (std::size_t s = 0; announces_ready() && s < servers(); ++s) {
      if (s > 0) started(s - 1).synchronize();
      ready_stream_->wait(ready_event(s));
      ready_stream_->synchronize();
      commands_sent_[s] = tell(s, {});
    }
    wait_for_started(Phase::push);
    for (const comm::Work& command : commands_sent_) command.synchronize();
    const ScopedPhase phase(context_.observer, Phase::pull, stream);
    const nn::Graph& graph = replica_->graph();
    receive_shards(on_server() && !stale ? graph.weights() : graph.gradients(), true);
    if (config_.backup_workers > 0) receive_next_step();
  }

  bool skips_step() override {
    if (config_.backup_workers == 0) return false;
    if (step_ < next_step_) return ++step_ > 0;
    write_commands(ServerCommand::push);  // of this step
    ++step_;
    return false;
  }

  // Reports pushes, then pulls, numbered on. Between the transfers of a shard its server works.
  void report(PhaseObserver& observer) override {
    GradientExchange::report(observer);
    for (std::size_t s = 0; s < pulls_.size(); ++s) {
      const comm::WorkTimes pull = pulls_[s].times();
      report_transfer(observer, pulls_.size() + s, buckets()[s].bytes, pull.start_s, pull);
    }
  }

  void parameters_set(bool to_step_0) override {
    if (to_step_0) step_ = next_step_ = 0;
    command_all(to_step_0 ? ServerCommand::reset : ServerCommand::assign);
    send_parameters();
    write_commands(ServerCommand::push);  // every round is a push until the next other command
  }

  BufferView fetch_gradients() override {
    if (on_server()) {  // else they were pulled
      pull_all(ServerCommand::gradients, replica_->graph().gradients());
    }
    return GradientExchange::fetch_gradients();
  }

  // What a worker pulled lacks the later pushes of others.
  void publish() override {
    if (config_.max_staleness > 0) pull_all(ServerCommand::weights, replica_->graph().weights());
  }

  void add_parts(std::vector<StatePart>& parts) override {
    GradientExchange::add_parts(parts);
    for (std::size_t s = 0; on_server() && s < servers(); ++s) {
      add_server_parts(parts, config_, static_cast<int>(s), buckets()[s], nullptr);
    }
  }
  void command_servers(Transfer transfer) override {
    if (transfer == Transfer::save) publish();
    command_all(transfer == Transfer::save ? ServerCommand::save : ServerCommand::load);
    write_commands(ServerCommand::push);
  }

  void say_goodbye() override { command_all(ServerCommand::goodbye); }

 private:
  bool on_server() const { return config_.ps_update == PsUpdate::server; }
  std::size_t servers() const { return static_cast<std::size_t>(config_.servers); }
  int rank_of(std::size_t server) const { return config_.replicas + static_cast<int>(server); }
  // A server on a GPU that waited for one worker's gradient could answer no other meanwhile: where
  // it serves them one by one, it hears of gradients that are there.
  bool announces_ready() const {
    return context_.control != nullptr && config_.serves_one_by_one() != nullptr;
  }

  std::vector<Bucket> plan_transfers(const nn::ParameterPlan& parameters) const override {
    return plan_shards(parameters.flat_bytes, config_.servers, &parameters);
  }

  void open(const std::vector<Bucket>&) override {
    registered_.add(world(), replica_->graph().gradients());
    registered_.add(world(), replica_->graph().weights());
    ready_stream_ = replica_->device().make_stream();
    commands_.resize(servers());
    next_steps_.resize(servers());
    commands_sent_.resize(servers());
    pulls_.resize(servers());
  }

  comm::Work start(std::size_t s, const comm::CallOptions& options) override {
    if (!announces_ready()) commands_sent_[s] = tell(s, options);
    return world().send(elements_of(replica_->graph().gradients(), s), rank_of(s), options);
  }

  // A thread that waits for a GPU's transfers would send no command meanwhile.
  comm::Work tell(std::size_t s, comm::CallOptions options) {
    options.after = nullptr;  // host memory is in order with no stream
    if (context_.control != nullptr) options.start = comm::Start::now;
    return context_.commands().send({&commands_[s], 1, DataType::int64}, rank_of(s), options);
  }

  // Writes `command` into the memory that commands are sent from.
  void write_commands(ServerCommand command) {
    const bool tells_step = config_.backup_workers > 0 && command == ServerCommand::push;
    std::ranges::fill(commands_,
                      static_cast<std::int64_t>(command) + (tells_step ? step_ << kStepBit : 0));
  }

  // Sends every server the same command and waits until all have taken it.
  void command_all(ServerCommand command) {
    write_commands(command);
    for (std::size_t s = 0; s < servers(); ++s) tell(s, kDeferred).synchronize();
    replica_->stream().synchronize();
  }

  // After the pushes of all workers.
  void pull_all(ServerCommand command, const Buffer& flat) {
    command_all(command);
    receive_shards(flat, false);
    write_commands(ServerCommand::push);
  }

  // Gives the servers their shards of the parameters, where they keep them.
  void send_parameters() {
    if (!on_server() || world().rank() != 0) return;
    for (std::size_t s = 0; s < servers(); ++s) {
      world()
          .send(elements_of(replica_->graph().weights(), s), rank_of(s),
                deferred_after(replica_->stream()))
          .wait(replica_->stream());
    }
  }

  // Each server sends its shard of `flat`.
  void receive_shards(const Buffer& flat, bool as_buckets) {
    Stream& stream = replica_->stream();
    world().group_start();
    for (std::size_t s = 0; s < servers(); ++s) {
      const int bucket = as_buckets ? static_cast<int>(servers() + s) : -1;
      pulls_[s] =
          world().recv(elements_of(flat, s), rank_of(s),
                       {.after = &stream, .start = comm::Start::deferred, .bucket = bucket});
    }
    world().group_end();
    for (const comm::Work& pull : pulls_) pull.wait(stream);
  }

  // The first step that any of the servers still takes gradients of.
  void receive_next_step() {
    for (std::size_t s = 0; s < servers(); ++s) {
      const comm::Elements next{&next_steps_[s], 1, DataType::int64};
      context_.commands().recv(next, rank_of(s), kDeferred).synchronize();
    }
    next_step_ = std::ranges::min(next_steps_);
  }

  comm::Elements elements_of(const Buffer& flat, std::size_t shard) const {
    return flat_elements(range_of(flat.view(), shard));
  }

  std::vector<std::int64_t> commands_, next_steps_;  // [server] in host memory
  std::unique_ptr<Stream> ready_stream_;             // with `control`: to wait for gradients
  std::int64_t step_ = 0, next_step_ = 0;            // with backup_workers
  std::vector<comm::Work> commands_sent_, pulls_;    // [server]
  Registrations registered_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_push_and_pull(const StrategyConfig& config,
                                                     const StrategyContext& context) {
  return std::make_unique<PushAndPull>(config, context);
}

}  // namespace ddpbench
