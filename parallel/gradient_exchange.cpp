// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_exchange.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "parallel/comm_hook.h"

namespace ddpbench {
namespace {

class AllReduce final : public GradientExchange {
 public:
  AllReduce(const StrategyConfig& config, const StrategyContext& context)
      : GradientExchange(config, context), hook_(make_comm_hook(config, context)) {}

  // A hook decodes a bucket while the next ones are on their way.
  void finish(bool) override {
    if (!hook_) return wait_for_started(Phase::comm_wait);
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      if (followed_bytes(b) == 0) continue;
      wait_for(started(b));
      const ScopedPhase phase(context_.observer, Phase::encode, replica_->stream());
      followed_[b] = hook_->follow(b, call_options(b, started_count() + b));
    }
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      if (is_missing(b)) continue;
      wait_for(started(b));
      wait_for(followed_[b]);
      const ScopedPhase phase(context_.observer, Phase::encode, replica_->stream());
      hook_->decode(b, replica_->stream(), gradients_of(b));
    }
  }

  void add_parts(std::vector<StatePart>& parts) override {
    GradientExchange::add_parts(parts);
    if (hook_) hook_->add_parts(parts);
  }

  void parameters_set(bool to_step_0) override {
    if (to_step_0 && hook_) hook_->reset(replica_->stream());
  }

 private:
  void wait_for(const comm::Work& work) {
    const ScopedPhase phase(context_.observer, Phase::comm_wait, replica_->stream());
    work.wait(replica_->stream());
  }

  BufferView gradients_of(std::size_t b) const {
    return range_of(replica_->graph().gradients().view(), b);
  }

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters) override {
    if (!hook_) return {};
    return hook_->planned(parameters, plan_groups(parameters));
  }
  void open(const std::vector<Bucket>& buckets) override {
    agree_on(buckets);
    hook_ ? hook_->open() : registered_.add(world(), replica_->graph().gradients());
  }

  comm::Work start(std::size_t b, const comm::CallOptions& options) override {
    if (is_missing(b)) return {};
    if (hook_) {
      const ScopedPhase phase(context_.observer, Phase::encode, replica_->stream());
      return hook_->start(b, gradients_of(b), options);
    }
    return world().all_reduce(flat_elements(gradients_of(b)), comm::ReduceOp::average, options);
  }
  std::size_t sent_bytes(std::size_t b) const override {
    return hook_ ? hook_->sent_bytes(b) : GradientExchange::sent_bytes(b);
  }
  std::size_t followed_bytes(std::size_t b) const override {
    return hook_ && !is_missing(b) ? hook_->followed_bytes(b) : 0;
  }

  Registrations registered_;
  std::unique_ptr<CommHook> hook_;  // null: none
};

class ReadyTimes final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;
  void adapt(ReplicaOptions&) override {}
  void plan(const nn::ParameterPlan&, MemoryNeeds&) override {}
  void finish(bool) override {}

 private:
  comm::Work start(std::size_t, const comm::CallOptions&) override { return {}; }
};

}  // namespace

std::vector<Bucket> plan_buckets(const nn::ParameterPlan& plan, std::size_t first_cap_bytes,
                                 std::size_t cap_bytes) {
  std::vector<Bucket> buckets;
  const auto& parameters = plan.parameters;
  std::size_t first = 0;
  std::size_t filled = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    filled += parameters[i].bytes;
    const bool last = i + 1 == parameters.size();
    if (filled < (buckets.empty() ? first_cap_bytes : cap_bytes) && !last) continue;
    const std::size_t begin = parameters[first].offset_bytes;
    const std::size_t end = last ? plan.flat_bytes : parameters[i + 1].offset_bytes;
    buckets.push_back({i + 1, begin, end - begin});
    first = i + 1;
    filled = 0;
  }
  return buckets;
}

GradientBucketer::GradientBucketer(std::vector<Bucket> buckets,
                                   std::function<void(std::size_t)> start)
    : buckets_(std::move(buckets)), start_(std::move(start)) {
  is_ready_.resize(buckets_.empty() ? 0 : buckets_.back().end_parameter);
}

void GradientBucketer::begin_pass() {
  next_ = 0;
  ready_prefix_ = 0;
  std::fill(is_ready_.begin(), is_ready_.end(), false);
  start_ready();
}

void GradientBucketer::ready(std::size_t parameter) {
  ensure(parameter < is_ready_.size() && !is_ready_[parameter],
         "gradient {} is unknown or was ready already", parameter);
  is_ready_[parameter] = true;
  while (ready_prefix_ < is_ready_.size() && is_ready_[ready_prefix_]) ++ready_prefix_;
  start_ready();
}

void GradientBucketer::start_ready() {
  while (next_ < buckets_.size() && buckets_[next_].end_parameter <= ready_prefix_) {
    start_(next_++);
  }
}

void GradientExchange::plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs) {
  Buffer summary;
  needs.add(planned_summary(summary));
  needs.add(planned(parameters));
}

void GradientExchange::connect(Replica& replica) {
  replica_ = &replica;
  pass_ = passes() - 1;
  std::vector<Bucket> buckets = plan_transfers(replica.graph().plan());
  allocate(replica.device(), planned(replica.graph().plan()));
  open(buckets);
  started_.resize(passes() * buckets.size());
  followed_.resize(buckets.size());
  for (std::size_t b = 0; b < started_.size(); ++b) {
    ready_events_.push_back(replica.device().make_event());
  }
  bucketer_.emplace(std::move(buckets), [this](std::size_t b) { start_bucket(b); });
  ready_ = [this](std::size_t parameter) { bucketer_->ready(parameter); };
}

std::size_t GradientExchange::passes() const {
  const bool every = config_.sync_every_pass || exchanges_each_pass();
  return every ? static_cast<std::size_t>(config_.accumulation_steps) : 1;
}

void GradientExchange::agree_on(const std::vector<Bucket>& buckets) {
  const nn::ParameterPlan& plan = replica_->graph().plan();
  PlanSummary own{plan.hash, plan.flat_bytes};
  for (const Bucket& bucket : buckets) {
    own.hash = combine_hash(combine_hash(own.hash, bucket.offset_bytes), bucket.bytes);
  }
  agree_on_plan(world(), replica_->device(), &own);
}

const nn::GradientReady& GradientExchange::begin_pass() {
  pass_ = (pass_ + 1) % passes();
  if (pass_ == 0) begin_step();
  bucketer_->begin_pass();
  return ready_;
}

// Called in bucket order, after the bucket's last gradient was queued.
void GradientExchange::start_bucket(std::size_t b) {
  Stream& stream = replica_->stream();
  const std::size_t number = pass_ * buckets().size() + b;
  stream.record(*ready_events_[number]);
  started_[number] = start(b, call_options(b, number));
}

comm::CallOptions GradientExchange::call_options(std::size_t b, std::size_t number) const {
  const bool hidden = config_.overlap && b + 1 < buckets().size();
  return {.after = &replica_->stream(),
          .start = hidden ? comm::Start::now : comm::Start::deferred,
          .bucket = static_cast<int>(number)};
}

void GradientExchange::wait_for_started(Phase phase) {
  const ScopedPhase marked(context_.observer, phase, replica_->stream());
  for (const comm::Work& work : started_) work.wait(replica_->stream());
}

void GradientExchange::update(float grad_scale, bool stale) {
  if (replica_->updates() && !stale) {
    ddpbench::update(*replica_, context_.observer, grad_scale);
  }
}

void GradientExchange::report(PhaseObserver& observer) {
  for (std::size_t b = 0; b < started_.size(); ++b) {
    const std::size_t bucket = b % buckets().size();
    if (is_missing(bucket) || buckets()[bucket].bytes == 0) continue;
    const double ready_s = ready_events_[b]->time_s();
    const comm::WorkTimes none{.start_s = ready_s, .arrived_s = ready_s, .end_s = ready_s};
    report_transfer(observer, b, sent_bytes(bucket), ready_s,
                    context_.world == nullptr ? none : started_[b].times());
  }
  for (std::size_t b = 0; b < followed_.size(); ++b) {
    if (followed_bytes(b) == 0) continue;
    const comm::WorkTimes times = followed_[b].times();
    report_transfer(observer, started_.size() + b, followed_bytes(b), times.start_s, times);
  }
}

std::unique_ptr<GradientExchange> make_ready_times(const StrategyConfig& config,
                                                   const StrategyContext& context) {
  return std::make_unique<ReadyTimes>(config, context);
}

std::unique_ptr<GradientExchange> make_all_reduce(const StrategyConfig& config,
                                                  const StrategyContext& context) {
  return std::make_unique<AllReduce>(config, context);
}

}  // namespace ddpbench
