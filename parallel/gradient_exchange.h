// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GradientExchange: how the gradients of a rank's replica meet those of the others, bucket by
// bucket while backward runs. Replicated strategies (replicated.cpp) differ in it alone.
//
// In the last pass of each step, or in every one: begin_pass(), backward with what that returns,
// finish(). Then update().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/nn/graph.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"
#include "parallel/strategy.h"

namespace ddpbench {

std::vector<Bucket> plan_buckets(const nn::ParameterPlan& plan, std::size_t first_cap_bytes,
                                 std::size_t cap_bytes);

// Groups consecutive gradients into buckets, and starts each bucket's transfer as soon as its last
// gradient is ready, in index order, on every rank alike.
//
// Buckets follow PyTorch's DDP (Li et al., VLDB 2020): parameters come in reverse order, and a
// bucket closes when it holds at least its cap. That of the first is small, so that communication
// starts early. Buckets are ranges of the flat gradient buffer, so gradients are not copied.
class GradientBucketer {
 public:
  // `start(bucket)` is called in index order, once per bucket and pass.
  GradientBucketer(std::vector<Bucket> buckets, std::function<void(std::size_t)> start);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // To be called before every backward pass. Starts the buckets in front of which there is no
  // parameter: those of servers in a network that has none.
  void begin_pass();
  // A parameter's gradient is ready: starts the buckets that are now complete. Throws InternalError
  // when it was ready already.
  void ready(std::size_t parameter);

 private:
  void start_ready();

  std::vector<Bucket> buckets_;
  std::vector<bool> is_ready_;    // [parameter]
  std::size_t ready_prefix_ = 0;  // all parameters before it are ready
  std::size_t next_ = 0;          // bucket to start next
  std::function<void(std::size_t)> start_;
};

class GradientExchange {
 public:
  // Both outlive this.
  GradientExchange(const StrategyConfig& config, const StrategyContext& context)
      : config_(config), context_(context) {}
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  virtual ~GradientExchange() = default;

  // Says which memory of the replica peers map, and whether it updates its own weights.
  virtual void adapt(ReplicaOptions& options) { options.gradient_sharing = Sharing::mappable; }
  // Adds what connect() will allocate, before anything is. May be collective.
  virtual void plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs);
  // Agrees with the peers on buckets, and registers memory. `replica` outlives this. Collective.
  void connect(Replica& replica);

  // Whether the gradients of the step's pass `pass` are exchanged: of the last alone, or of each.
  bool exchanges(int pass) const { return passes() > 1 || pass + 1 == config_.accumulation_steps; }
  // The gradients of the backward pass that follows are exchanged: it calls the result.
  const nn::GradientReady& begin_pass();
  // Queues the rest of the exchange. What comes makes no difference to a `stale` replica.
  virtual void finish(bool stale) = 0;
  // Queues what the replica does about its weights itself: the update by grad_scale * gradients,
  // unless it is stale, where it holds the optimizer's state.
  virtual void update(float grad_scale, bool stale);
  // Asked once before each step: whether it is done already without this rank, which skips it.
  virtual bool skips_step() { return false; }
  // As Strategy::report. Buckets of further passes are numbered on, and then what followed.
  virtual void report(PhaseObserver& observer);

  // The replica's parameters were set, to those of step 0 or to others. Collective.
  virtual void parameters_set(bool /*to_step_0*/) {}
  // As Strategy has it.
  virtual BufferView fetch_gradients() { return replica_->graph().gradients().view(); }
  virtual void publish() {}  // likewise: makes the replicas equal
  // As Strategy::parts and command_servers. Here: what the replica updates by, equal on all ranks.
  virtual void add_parts(std::vector<StatePart>& parts) { replica_->add_parts(parts); }
  virtual void command_servers(Transfer) {}
  virtual void say_goodbye() {}  // to servers
  // Whether it adds the gradients of a step's passes itself, and needs those of each alone.
  virtual bool exchanges_each_pass() const { return false; }

 protected:
  // Called before the first backward pass of a step whose gradients are exchanged.
  virtual void begin_step() {}
  virtual std::vector<PlannedBuffer> planned(const nn::ParameterPlan&) { return {}; }
  // The buckets, in the order in which they are started.
  virtual std::vector<Bucket> plan_transfers(const nn::ParameterPlan& parameters) const {
    return plan_groups(parameters);
  }
  // Once what is planned is there: agrees on the buckets and registers memory.
  virtual void open(const std::vector<Bucket>& /*buckets*/) {}
  // Queues the transfer of bucket b, whose gradients are complete.
  virtual comm::Work start(std::size_t b, const comm::CallOptions& options) = 0;

  virtual std::vector<Bucket> plan_groups(const nn::ParameterPlan& parameters) const {
    return plan_buckets(parameters, config_.first_bucket_bytes, config_.bucket_cap_bytes);
  }
  // The bytes of a bucket as they are sent, and what is in followed_.
  virtual std::size_t sent_bytes(std::size_t b) const { return buckets()[b].bytes; }
  virtual std::size_t followed_bytes(std::size_t /*b*/) const { return 0; }

  // For a transfer of bucket b. The last bucket has nothing left to hide behind. It, and each
  // without overlap, runs on this thread when that waits, which spares a hand-over to the
  // communication thread.
  comm::CallOptions call_options(std::size_t b, std::size_t number) const;

  // Throws CommError where a peer has other parameters or buckets. Collective.
  void agree_on(const std::vector<Bucket>& buckets);
  // Queues a wait for all that was started, as `phase`.
  void wait_for_started(Phase phase);

  comm::Communicator& world() const { return *context_.world; }
  const std::vector<Bucket>& buckets() const { return bucketer_->buckets(); }
  // Where bucket b is in a flat buffer.
  BufferView range_of(const BufferView& flat, std::size_t b) const {
    return flat.slice(buckets()[b].offset_bytes, buckets()[b].bytes);
  }
  // The pass of the step, of those that exchange, and what was started in it.
  std::size_t pass() const { return pass_; }
  const Event& ready_event(std::size_t b) const {
    return *ready_events_[pass_ * buckets().size() + b];
  }
  const comm::Work& started(std::size_t b) const { return started_[pass_ * buckets().size() + b]; }
  bool is_missing(std::size_t b) const {
    return static_cast<int>(b) == config_.faults.missing_bucket;
  }
  std::size_t started_count() const { return started_.size(); }

  const StrategyConfig& config_;
  const StrategyContext& context_;
  Replica* replica_ = nullptr;        // from connect() on
  std::vector<comm::Work> followed_;  // [bucket], after the step's passes; or more

 private:
  void start_bucket(std::size_t b);
  std::size_t passes() const;

  std::optional<GradientBucketer> bucketer_;
  nn::GradientReady ready_;                           // made once: no allocation in a step
  std::size_t pass_ = 0;                              // of those of a step that exchange
  std::vector<comm::Work> started_;                   // [pass][bucket]
  std::vector<std::unique_ptr<Event>> ready_events_;  // [pass][bucket]
};

// What the rows of strategies.cpp name.
using MakeExchange = std::unique_ptr<GradientExchange>(const StrategyConfig& config,
                                                       const StrategyContext& context);
template <typename Exchange>
std::unique_ptr<GradientExchange> make_exchange(const StrategyConfig& config,
                                                const StrategyContext& context) {
  return std::make_unique<Exchange>(config, context);
}
// `ddp`: gradients are averaged by all-reduce, and every rank updates its own copy (Li et al., VLDB
// 2020). Wire, per rank and step: 2 (n-1)/n S bytes for S bytes of gradients.
MakeExchange make_all_reduce;
// `localsgd`: replicas update by their own gradients, and average weights (local_sgd.cpp).
MakeExchange make_local_sgd;
// For one device: sends nothing, and tells when the gradients of ddp's buckets are ready.
MakeExchange make_ready_times;
// `ps`: shards are pushed to the servers and pulled from them (parameter_server.cpp).
MakeExchange make_push_and_pull;

}  // namespace ddpbench
