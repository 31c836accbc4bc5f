// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// There is one permutation an epoch. Shard r of n takes every n-th entry, starting at r.
#include "datasets/sharded_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "datasets/image_view.h"

namespace ddpbench::data {
namespace {

void check(const SamplerOptions& options) {
  ensure(options.samples >= 1 && options.samples <= std::numeric_limits<std::uint32_t>::max(),
         "sampler: a data set of {} samples", options.samples);
  ensure(options.global_batch >= 1 && options.shards >= 1 && options.passes >= 1 &&
             options.global_batch % (options.shards * options.passes) == 0,
         "sampler: a global batch of {} does not divide into {} equal shards and {} passes",
         options.global_batch, options.shards, options.passes);
  if (options.last_batch == LastBatch::drop && options.global_batch > options.samples) {
    throw ConfigError(fmt::format(
        "sampler: a global batch of {} out of {} samples leaves no step when the last, incomplete "
        "batch is dropped; take --last-batch=pad or a smaller batch",
        options.global_batch, options.samples));
  }
}

}  // namespace

ShardedSampler::ShardedSampler(const SamplerOptions& options) : options_(options) {
  check(options);
  permutation_.reserve(static_cast<std::size_t>(options.samples));
}

std::int64_t ShardedSampler::steps_per_epoch() const {
  const std::int64_t whole = options_.samples / options_.global_batch;
  const bool rest = options_.samples % options_.global_batch != 0;
  return options_.last_batch == LastBatch::pad && rest ? whole + 1 : whole;
}

// Fisher and Yates' shuffle (Durstenfeld 1964). It always starts from the identity, so that an
// epoch's order does not depend on the epochs drawn before.
void ShardedSampler::begin_epoch(std::int64_t epoch) {
  permutation_.resize(static_cast<std::size_t>(options_.samples));
  std::iota(permutation_.begin(), permutation_.end(), 0U);
  SplitMix64 random(options_.seed, options_.reshuffles ? static_cast<std::uint64_t>(epoch) : 0);
  for (auto left = static_cast<std::uint32_t>(permutation_.size()); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.below(left)]);
  }
}

void ShardedSampler::batch(std::int64_t pass, int shard, std::span<std::int64_t> out) const {
  const std::int64_t shards = options_.shards;
  ensure(!permutation_.empty(), "sampler: batch() before begin_epoch()");
  ensure(pass >= 0 && pass < passes_per_epoch(), "sampler: pass {} of {}", pass,
         passes_per_epoch());
  ensure(shard >= 0 && shard < shards, "sampler: shard {} of {}", shard, shards);
  ensure(std::ssize(out) == pass_samples() / shards, "sampler: room for {} samples of {}",
         out.size(), options_.global_batch / shards);
  for (std::size_t j = 0; j < out.size(); ++j) {
    out[j] = sample_at(place(pass, shard, static_cast<std::int64_t>(j)));
  }
}

LabelCounts::LabelCounts(const Split& split, std::int32_t ignored)
    : split_(split),
      counts_(split.has_maps ? 0 : static_cast<std::size_t>(split.count)),
      ignored_(ignored) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto labels = split.labels.subspan(i * split.labels_per_sample, split.labels_per_sample);
    const auto count = std::ranges::count_if(labels, [&](auto label) { return label != ignored; });
    counts_[i] = static_cast<std::uint32_t>(count);
  }
}

float LabelCounts::weight(const ShardedSampler& sampler, std::int64_t step,
                          const BatchAugmentation* augmentation) const {
  const std::int64_t batch = sampler.options().global_batch;
  const std::int64_t first = step * batch;
  std::int64_t valid = 0;
  for (std::int64_t place = first; place < first + batch; ++place) {
    const std::int64_t sample = sampler.sample_at(place);
    valid += split_.has_maps ? view_labels(split_, sample,
                                           view_of_sample(split_, sample, augmentation), nullptr)
                             : counts_[static_cast<std::size_t>(sample)];
  }
  if (valid == 0) return 0;
  const double labels = static_cast<double>(batch) * static_cast<double>(split_.labels_per_sample);
  return static_cast<float>(labels / static_cast<double>(valid));
}

void LabelCounts::check(const ShardedSampler& sampler, std::int64_t steps,
                        const BatchAugmentation* augmentation) const {
  for (std::int64_t step = 0; step < steps; ++step) {
    if (weight(sampler, step, augmentation) > 0) return;
  }
  if (steps == 0) return;
  throw ConfigError(fmt::format(
      "all labels of {} are the label {}, which the network's loss ignores (ignore_index): there "
      "is nothing to learn",
      counted(steps, "step"), ignored_));
}

}  // namespace ddpbench::data
