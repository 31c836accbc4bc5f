// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which samples each shard sees in an epoch, as PyTorch's DistributedSampler does. One
// permutation from (seed, epoch) is dealt out in turn, so shards are disjoint but for padding. Step
// k sees the same global set of samples for every world size and strategy of equal global batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

enum class LastBatch : std::uint8_t { pad, drop };

struct SamplerOptions {
  std::int64_t samples = 0;       // in the data set
  std::int64_t global_batch = 0;  // samples of a step, of all shards together
  int shards = 1;                 // passes * shards divides global_batch
  int passes = 1;                 // in which a step takes its samples (accumulation)
  std::uint64_t seed = 1;
  LastBatch last_batch = LastBatch::pad;
  bool reshuffles = true;  // false, a planted fault: each epoch has the order of the first
};

class ShardedSampler {
 public:
  // Throws ConfigError where no step is left.
  explicit ShardedSampler(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }

  // Equal on all shards: ceil(samples / global_batch) when padding, floor when dropping.
  std::int64_t steps_per_epoch() const;
  // Draws the epoch's permutation. Not thread-safe against batch().
  void begin_epoch(std::int64_t epoch);
  std::int64_t passes_per_epoch() const { return steps_per_epoch() * options_.passes; }
  // Sample indices of `shard` in pass `pass` of the epoch: permutation[pass*P + j*shards + shard],
  // j = 0..B-1, P = global_batch / passes, wrapped around at the end of the data set. `out` has
  // P / shards entries.
  void batch(std::int64_t pass, int shard, std::span<std::int64_t> out) const;
  std::int64_t pass_samples() const { return options_.global_batch / options_.passes; }
  // The place of sample j of that batch in the epoch's global order. It goes on beyond the end of
  // the data set where samples wrap around.
  std::int64_t place(std::int64_t pass, int shard, std::int64_t j = 0) const {
    return pass * pass_samples() + j * options_.shards + shard;
  }
  // The sample at a place, after begin_epoch(). REQUIRES: place >= 0.
  std::int64_t sample_at(std::int64_t place) const {
    return permutation_[static_cast<std::size_t>(place % options_.samples)];
  }

 private:
  SamplerOptions options_;
  std::vector<std::uint32_t> permutation_;
};

// How many labels of a data set's samples count, where a loss ignores one label. The loss of a step
// is the mean over the labels of the global batch that count. Each rank counts them itself, without
// a message, since it knows the order and the labels of all samples.
class LabelCounts {
 public:
  // Reads all labels once; of stored images with maps, those of a batch when it is weighed. `split`
  // must outlive it.
  LabelCounts(const Split& split, std::int32_t ignored);

  // The number of labels in the global batch of `step` divided by the number of those that count; 0
  // when none counts: that batch has no loss and no gradient. REQUIRES: sampler.begin_epoch.
  float weight(const ShardedSampler& sampler, std::int64_t step,
               const BatchAugmentation* augmentation = nullptr) const;
  // Throws ConfigError when no label of the first `steps` steps counts: there is nothing to learn.
  void check(const ShardedSampler& sampler, std::int64_t steps,
             const BatchAugmentation* augmentation = nullptr) const;

 private:
  Split split_;
  std::vector<std::uint32_t> counts_;  // of each sample, where they do not depend on a crop
  std::int32_t ignored_;
};

}  // namespace ddpbench::data
