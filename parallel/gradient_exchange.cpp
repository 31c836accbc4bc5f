// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_exchange.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

class AllReduce final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void plan(const nn::ParameterPlan&, MemoryNeeds& needs) override {
    Buffer summary;
    needs.add(planned_summary(summary));
  }

  void finish(bool) override { wait_for_started(Phase::comm_wait); }

 private:
  std::vector<Bucket> open() override {
    std::vector<Bucket> buckets = plan_buckets(replica_->graph().plan(), config_.first_bucket_bytes,
                                               config_.bucket_cap_bytes);
    agree_on(buckets);
    registered_.add(world(), replica_->graph().gradients());
    return buckets;
  }

  comm::Work start(std::size_t b, const comm::CallOptions& options) override {
    if (static_cast<int>(b) == config_.faults.missing_bucket) return {};
    const Bucket& bucket = buckets()[b];
    const Buffer& gradients = replica_->graph().gradients();
    return world().all_reduce(
        flat_elements(gradients.view().slice(bucket.offset_bytes, bucket.bytes)),
        comm::ReduceOp::average, options);
  }

  Registrations registered_;
};

class ReadyTimes final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;
  void adapt(ReplicaOptions&) override {}
  void plan(const nn::ParameterPlan&, MemoryNeeds&) override {}
  void finish(bool) override {}

 private:
  std::vector<Bucket> open() override {
    return plan_buckets(replica_->graph().plan(), config_.first_bucket_bytes,
                        config_.bucket_cap_bytes);
  }
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

void GradientExchange::connect(Replica& replica) {
  replica_ = &replica;
  pass_ = passes() - 1;
  std::vector<Bucket> buckets = open();
  started_.resize(passes() * buckets.size());
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

BufferView GradientExchange::fetch_gradients() { return replica_->graph().gradients().view(); }

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
  bucketer_->begin_pass();
  return ready_;
}

// Called in bucket order, after the bucket's last gradient was queued.
void GradientExchange::start_bucket(std::size_t b) {
  Stream& stream = replica_->stream();
  const std::size_t number = pass_ * buckets().size() + b;
  stream.record(*ready_events_[number]);
  // The last bucket has nothing left to hide behind. It, and each without overlap, runs on this
  // thread when that waits, which spares a hand-over to the communication thread.
  const bool hidden = config_.overlap && b + 1 < buckets().size();
  started_[number] = start(b, {.after = &stream,
                               .start = hidden ? comm::Start::now : comm::Start::deferred,
                               .bucket = static_cast<int>(number)});
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
    const bool is_missing = static_cast<int>(bucket) == config_.faults.missing_bucket;
    if (is_missing || buckets()[bucket].bytes == 0) continue;
    const double ready_s = ready_events_[b]->time_s();
    const comm::WorkTimes none{.start_s = ready_s, .arrived_s = ready_s, .end_s = ready_s};
    report_transfer(observer, b, buckets()[bucket].bytes, ready_s,
                    context_.world == nullptr ? none : started_[b].times());
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
