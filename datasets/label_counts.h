// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How many labels of a data set's samples count, where a loss ignores one label.
//
// The loss of a step is the mean over the labels of the global batch that count. Each rank needs
// their number before its backward. It counts them itself, without a message, since it knows the
// order and the labels of all samples.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/sharded_sampler.h"

namespace ddpbench::data {

class LabelCounts {
 public:
  // Reads all labels once.
  LabelCounts(const Split& split, std::int32_t ignored);

  // Returns the number of labels in the global batch of `step` divided by the number of those that
  // count. 0 when none counts: that batch has no loss and no gradient. Cost: reads one number for
  // each sample. REQUIRES: sampler.begin_epoch.
  float weight(const ShardedSampler& sampler, std::int64_t step) const;
  // Throws ConfigError when no label of the first `steps` steps counts: there is nothing to learn.
  void check(const ShardedSampler& sampler, std::int64_t steps) const;

 private:
  std::vector<std::uint32_t> counts_;  // of each sample
  std::size_t labels_per_sample_;
  std::int32_t ignored_;
};

}  // namespace ddpbench::data
