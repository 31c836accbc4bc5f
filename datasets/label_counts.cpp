// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/label_counts.h"

#include <algorithm>

#include "base/error.h"

namespace ddpbench::data {

LabelCounts::LabelCounts(const Split& split, std::int32_t ignored)
    : counts_(static_cast<std::size_t>(split.count)),
      labels_per_sample_(split.labels_per_sample),
      ignored_(ignored) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto labels = split.labels.subspan(i * labels_per_sample_, labels_per_sample_);
    const auto count = std::ranges::count_if(labels, [&](auto label) { return label != ignored; });
    counts_[i] = static_cast<std::uint32_t>(count);
  }
}

float LabelCounts::weight(const ShardedSampler& sampler, std::int64_t step) const {
  const std::int64_t batch = sampler.options().global_batch;
  const std::int64_t first = sampler.place(step, 0);
  std::int64_t valid = 0;
  for (std::int64_t place = first; place < first + batch; ++place) {
    valid += counts_[static_cast<std::size_t>(sampler.sample_at(place))];
  }
  if (valid == 0) return 0;
  const double labels = static_cast<double>(batch) * static_cast<double>(labels_per_sample_);
  return static_cast<float>(labels / static_cast<double>(valid));
}

void LabelCounts::check(const ShardedSampler& sampler, std::int64_t steps) const {
  for (std::int64_t step = 0; step < steps; ++step) {
    if (weight(sampler, step) > 0) return;
  }
  if (steps == 0) return;
  throw ConfigError(fmt::format(
      "all labels of {} {} are the label {}, which the network's loss ignores (ignore_index): "
      "there is nothing to learn",
      steps, steps == 1 ? "step" : "steps", ignored_));
}

}  // namespace ddpbench::data
