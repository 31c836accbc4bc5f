// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the labels of a global batch weigh where some are ignored.
#include "datasets/sharded_sampler.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "datasets/loader.h"

namespace ddpbench::data {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kLabelledCount = 10, kLabelsEach = 3;
constexpr std::uint16_t kIgnoredLabel = 9;

// Sample i has i % 4 labels of 3 that count.
class Labelled {
 public:
  Labelled() : images_(kLabelledCount), labels_(kLabelledCount * kLabelsEach, kIgnoredLabel) {
    for (std::size_t i = 0; i < kLabelledCount; ++i) {
      for (std::size_t k = 0; k < i % 4; ++k) labels_[i * kLabelsEach + k] = 1;
    }
  }
  Split split() const {
    return {.images = images_,
            .labels = labels_,
            .count = kLabelledCount,
            .sample_bytes = 1,
            .labels_per_sample = kLabelsEach};
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint16_t> labels_;
};

ShardedSampler labelled_sampler(int shards) {
  return ShardedSampler(
      {.samples = kLabelledCount, .global_batch = 4, .shards = shards, .seed = 5});
}

// The batch wraps around at the end of the data set.
TEST(LabelCounts, WeighTheGlobalBatchAlikeForAnyNumberOfShards) {
  const Labelled data;
  const LabelCounts counts(data.split(), kIgnoredLabel);
  for (const int shards : {1, 2, 4}) {
    ShardedSampler sampler = labelled_sampler(shards);
    sampler.begin_epoch(2);
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      std::int64_t valid = 0;
      std::vector<std::int64_t> indices(static_cast<std::size_t>(4 / shards));
      for (int shard = 0; shard < shards; ++shard) {
        sampler.batch(step, shard, indices);
        for (const std::int64_t index : indices) valid += index % 4;
      }
      const float expected = valid == 0 ? 0 : 12.0F / static_cast<float>(valid);
      EXPECT_FLOAT_EQ(counts.weight(sampler, step), expected);
    }
  }
}

TEST(LabelCounts, RefuseStepsWithoutALabelThatCounts) {
  const std::vector<std::uint8_t> images(4);
  const std::vector<std::uint16_t> labels = {7, 7, 7, 7};
  const Split split{.images = images, .labels = labels, .count = 4, .sample_bytes = 1};
  ShardedSampler sampler({.samples = 4, .global_batch = 2, .seed = 1});
  sampler.begin_epoch(0);
  EXPECT_EQ(LabelCounts(split, 7).weight(sampler, 0), 0);
  EXPECT_NO_THROW(LabelCounts(split, 6).check(sampler, 2));
  EXPECT_NO_THROW(LabelCounts(split, 7).check(sampler, 0));
  EXPECT_THAT([&] { LabelCounts(split, 7).check(sampler, 2); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("label 7")));
}

// Each rank's loader knows the weight of the whole batch.
TEST(LabelCounts, ComeWithTheLoadersBatches) {
  const Labelled data;
  ShardedSampler sampler = labelled_sampler(2);
  const LabelCounts counts(data.split(), kIgnoredLabel);
  sampler.begin_epoch(0);
  for (const int workers : {0, 2}) {
    std::vector<float> images(2);
    std::vector<std::int32_t> labels(2 * kLabelsEach);
    float weight = -1;
    Loader loader(data.split(), sampler,
                  {.workers = workers,
                   .shards = {1},
                   .buffers = {{images.data(), labels.data(), &weight}},
                   .ignored_label = kIgnoredLabel});
    loader.begin_epoch(0, 3);
    std::vector<std::int64_t> indices(2);
    for (std::int64_t step = 0; step < 3; ++step) {
      ASSERT_NE(loader.next(), nullptr);
      EXPECT_EQ(weight, counts.weight(sampler, step));
      sampler.batch(step, 1, indices);
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t k = 0; k < kLabelsEach; ++k) {
          const auto valid = static_cast<std::size_t>(indices[i] % 4);
          EXPECT_EQ(labels[i * kLabelsEach + k], k < valid ? 1 : kIgnoredLabel);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddpbench::data
