// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/call_marks.h"

#include <algorithm>
#include <limits>

namespace ddpbench::bench {
namespace {

// Without a length a fault stays.
double length_s(const Injection& injection) {
  return injection.ms > 0 ? injection.ms * 1e-3 : std::numeric_limits<double>::infinity();
}

launch::CallMark mark_of(const comm::Operation& operation, std::uint64_t number) {
  return {.number = number,
          .kind = operation.kind,
          .bucket = operation.bucket,
          .peer = operation.is_message() ? operation.root : -1,
          .bytes = operation.part().bytes()};
}

}  // namespace

CallMarks::CallMarks(launch::RankWriter& writer, std::vector<Injection> injections)
    : writer_(writer), injections_(std::move(injections)) {}

void CallMarks::begin_step() { ++step_; }

void CallMarks::begun(const comm::Operation& operation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number =
      operation.is_message() ? ++messages_[{operation.kind, operation.root}] : ++collectives_;
  under_way_.push_back(mark_of(operation, number));
  write();
}

// Calls that are alike are completed in their order.
void CallMarks::done(const comm::Operation& operation) {
  const launch::CallMark like = mark_of(operation, 0);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(under_way_, [&](const launch::CallMark& mark) {
    return mark.kind == like.kind && mark.peer == like.peer && mark.bytes == like.bytes &&
           mark.bucket == like.bucket;
  });
  if (found == under_way_.end()) return;
  completed_ = *found;
  under_way_.erase(found);
  write();
}

void CallMarks::write() {
  writer_.calls(completed_, under_way_.empty() ? launch::CallMark{} : under_way_.front());
}

double CallMarks::hold_up_s() {
  const std::int64_t step = step_;
  const std::lock_guard lock(mutex_);
  double sum_s = 0;
  for (const Injection& injection : injections_) {
    if (step < 0 || (injection.step >= 0 && injection.step != step)) continue;
    if (injection.kind == "slow") sum_s += length_s(injection);
    if (injection.kind != "stall" || stalled_step_ == step) continue;
    stalled_step_ = step;
    sum_s += length_s(injection);
  }
  return sum_s;
}

}  // namespace ddpbench::bench
