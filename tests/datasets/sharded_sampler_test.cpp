// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which samples the shards see.
#include "datasets/sharded_sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ddpbench::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::int64_t> batch(const ShardedSampler& sampler, std::int64_t step, int shard) {
  const SamplerOptions& options = sampler.options();
  std::vector<std::int64_t> indices(
      static_cast<std::size_t>(options.global_batch / options.shards));
  sampler.batch(step, shard, indices);
  return indices;
}

// The samples that all shards together see in a step, sorted.
std::vector<std::int64_t> global_batch(const ShardedSampler& sampler, std::int64_t step) {
  std::vector<std::int64_t> all;
  for (int shard = 0; shard < sampler.options().shards; ++shard) {
    const auto part = batch(sampler, step, shard);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all);
  return all;
}

// How often each sample appears in an epoch.
std::vector<int> appearances(const ShardedSampler& sampler) {
  std::vector<int> counts(static_cast<std::size_t>(sampler.options().samples));
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    for (const std::int64_t index : global_batch(sampler, step)) {
      ++counts.at(static_cast<std::size_t>(index));
    }
  }
  return counts;
}

ShardedSampler sampler_of(const SamplerOptions& options, std::int64_t epoch = 0) {
  ShardedSampler sampler(options);
  sampler.begin_epoch(epoch);
  return sampler;
}

TEST(ShardedSampler, KeepsTheFirstOrderWhereItDoesNotReshuffle) {
  const SamplerOptions usual{.samples = 60, .global_batch = 20, .shards = 2};
  SamplerOptions forgets = usual;
  forgets.reshuffles = false;
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto first = batch(sampler_of(usual, 0), step, 1);
    EXPECT_NE(batch(sampler_of(usual, 1), step, 1), first) << step;
    EXPECT_EQ(batch(sampler_of(forgets, 1), step, 1), first) << step;
  }
}

class EveryShardCount : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ShardedSampler, EveryShardCount, testing::Values(1, 2, 3, 4, 5, 8),
                         [](const auto& test) { return "Shards" + std::to_string(test.param); });

TEST_P(EveryShardCount, SeesEachSampleOnceWhenBatchesDivideTheDataSet) {
  const auto sampler = sampler_of({.samples = 120 * 7, .global_batch = 120, .shards = GetParam()});
  EXPECT_EQ(sampler.steps_per_epoch(), 7);
  EXPECT_THAT(appearances(sampler), testing::Each(1));
}

TEST_P(EveryShardCount, PadsTheLastBatchFromTheStartOfThePermutation) {
  const auto sampler = sampler_of({.samples = 503, .global_batch = 120, .shards = GetParam()});
  ASSERT_EQ(sampler.steps_per_epoch(), 5);
  const auto first = global_batch(sampler, 0);
  const std::vector<int> counts = appearances(sampler);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 600);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool padding = std::ranges::binary_search(first, static_cast<std::int64_t>(i));
    EXPECT_TRUE(counts[i] == 1 || (counts[i] == 2 && padding)) << i << ": " << counts[i];
  }
}

TEST_P(EveryShardCount, LeavesTheLastIncompleteBatchOutWhenDropping) {
  const auto sampler = sampler_of(
      {.samples = 503, .global_batch = 120, .shards = GetParam(), .last_batch = LastBatch::drop});
  EXPECT_EQ(sampler.steps_per_epoch(), 4);
  const std::vector<int> counts = appearances(sampler);
  EXPECT_THAT(counts, testing::Each(testing::AnyOf(0, 1)));
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 480);
}

TEST_P(EveryShardCount, SeesTheSameGlobalBatchesAsASingleOne) {
  for (const LastBatch last : {LastBatch::pad, LastBatch::drop}) {
    const auto single =
        sampler_of({.samples = 503, .global_batch = 120, .shards = 1, .last_batch = last}, 3);
    const auto sharded = sampler_of(
        {.samples = 503, .global_batch = 120, .shards = GetParam(), .last_batch = last}, 3);
    ASSERT_EQ(sharded.steps_per_epoch(), single.steps_per_epoch());
    for (std::int64_t step = 0; step < single.steps_per_epoch(); ++step) {
      EXPECT_EQ(global_batch(sharded, step), global_batch(single, step)) << step;
    }
  }
}

TEST(ShardedSampler, DealsThePermutationOutInTurn) {
  const auto whole = sampler_of({.samples = 90, .global_batch = 12, .shards = 1});
  const auto dealt = sampler_of({.samples = 90, .global_batch = 12, .shards = 3});
  const auto order = batch(whole, 2, 0);
  for (int shard = 0; shard < 3; ++shard) {
    const auto part = batch(dealt, 2, shard);
    for (std::size_t j = 0; j < part.size(); ++j) {
      EXPECT_EQ(part[j], order[j * 3 + static_cast<std::size_t>(shard)]);
    }
  }
}

TEST(ShardedSampler, WrapsAroundMoreThanOnceWhenTheBatchExceedsTheDataSet) {
  const auto sampler = sampler_of({.samples = 5, .global_batch = 12, .shards = 2});
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  const std::vector<int> counts = appearances(sampler);
  EXPECT_THAT(counts, testing::Each(testing::AnyOf(2, 3)));
}

TEST(ShardedSampler, DrawsAnotherOrderForAnotherEpochOrSeed) {
  const SamplerOptions options = {.samples = 500, .global_batch = 500};
  SamplerOptions reseeded = options;
  reseeded.seed = 2;
  const auto order = batch(sampler_of(options, 0), 0, 0);
  EXPECT_NE(batch(sampler_of(options, 1), 0, 0), order);
  EXPECT_NE(batch(sampler_of(reseeded, 0), 0, 0), order);
}

TEST(ShardedSampler, DoesNotDependOnTheEpochsDrawnBefore) {
  ShardedSampler sampler({.samples = 500, .global_batch = 50});
  sampler.begin_epoch(7);
  const auto direct = batch(sampler, 3, 0);
  sampler.begin_epoch(0);
  EXPECT_NE(batch(sampler, 3, 0), direct);
  sampler.begin_epoch(7);
  EXPECT_EQ(batch(sampler, 3, 0), direct);
}

// The order is part of what makes runs comparable between machines and versions. It was written
// down once and must stay.
TEST(ShardedSampler, KeepsItsOrderOnEveryMachine) {
  const auto sampler = sampler_of({.samples = 10, .global_batch = 10, .seed = 1});
  EXPECT_THAT(batch(sampler, 0, 0), testing::ElementsAre(6, 9, 5, 7, 4, 0, 1, 2, 3, 8));
}

// Each sample is equally likely in each place: 2000 epochs of 8 samples give 250 a cell, with a
// deviation of 14.8. Five deviations are allowed.
TEST(ShardedSampler, PutsEverySampleEverywhereEquallyOften) {
  ShardedSampler sampler({.samples = 8, .global_batch = 8});
  std::vector<std::vector<int>> counts(8, std::vector<int>(8));
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
    sampler.begin_epoch(epoch);
    const auto order = batch(sampler, 0, 0);
    for (std::size_t place = 0; place < 8; ++place) {
      ++counts[place][static_cast<std::size_t>(order[place])];
    }
  }
  for (const auto& row : counts) {
    EXPECT_THAT(row, testing::Each(testing::AllOf(testing::Gt(176), testing::Lt(324))));
  }
}

TEST(ShardedSampler, RefusesImpossibleOptions) {
  const auto make = [](const SamplerOptions& options) {
    return [=] { ShardedSampler s(options); };
  };
  EXPECT_THAT(make({.samples = 0, .global_batch = 1}),
              ThrowsMessage<InternalError>(HasSubstr("0 samples")));
  EXPECT_THAT(make({.samples = std::int64_t{1} << 32, .global_batch = 1}),
              ThrowsMessage<InternalError>(HasSubstr("4294967296")));
  EXPECT_THAT(make({.samples = 10, .global_batch = 0}),
              ThrowsMessage<InternalError>(HasSubstr("batch of 0")));
  EXPECT_THAT(make({.samples = 10, .global_batch = 4, .shards = 0}),
              ThrowsMessage<InternalError>(HasSubstr("0 equal shards")));
  EXPECT_THAT(make({.samples = 10, .global_batch = 4, .shards = 3}),
              ThrowsMessage<InternalError>(HasSubstr("batch of 4 does not divide into 3")));
  EXPECT_THAT(make({.samples = 10, .global_batch = 11, .last_batch = LastBatch::drop}),
              ThrowsMessage<ConfigError>(HasSubstr("leaves no step")));
}

TEST(ShardedSampler, RefusesAStepOrShardThatIsNotThere) {
  const auto sampler = sampler_of({.samples = 10, .global_batch = 4, .shards = 2});
  std::vector<std::int64_t> indices(2), too_many(3);
  EXPECT_THROW(sampler.batch(3, 0, indices), InternalError);
  EXPECT_THROW(sampler.batch(-1, 0, indices), InternalError);
  EXPECT_THROW(sampler.batch(0, 2, indices), InternalError);
  EXPECT_THROW(sampler.batch(0, 0, too_many), InternalError);
  EXPECT_THROW(ShardedSampler({.samples = 10, .global_batch = 4, .shards = 2}).batch(0, 0, indices),
               InternalError);
}

}  // namespace
}  // namespace ddpbench::data
