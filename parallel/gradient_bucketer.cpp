// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_bucketer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ddpbench {

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

}  // namespace ddpbench
