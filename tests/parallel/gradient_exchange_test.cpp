// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/server_shard.h"

namespace ddpbench {
namespace {

using testing::ElementsAre;

// Parameters of the given sizes, each at the next multiple of 64 bytes.
nn::ParameterPlan plan_of(const std::vector<std::size_t>& sizes) {
  nn::ParameterPlan plan;
  for (const std::size_t bytes : sizes) {
    nn::ParameterInfo info;
    info.offset_bytes = plan.flat_bytes;
    info.bytes = bytes;
    plan.parameters.push_back(info);
    plan.flat_bytes += (bytes + 63) / 64 * 64;
  }
  return plan;
}

TEST(GradientBucketer, ClosesABucketWhenItHoldsItsCap) {
  const auto buckets = plan_buckets(plan_of({40, 100, 64, 64, 64}), 100, 128);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].end_parameter, 2u);  // 40 + 100 >= the first cap
  EXPECT_EQ(buckets[1].end_parameter, 4u);  // 64 + 64 >= the cap
  EXPECT_EQ(buckets[2].end_parameter, 5u);  // the rest
}

TEST(GradientBucketer, BucketsCoverTheFlatBufferWithoutGapsOrOverlap) {
  const auto plan = plan_of({4, 1000, 68, 12, 4096, 8});
  std::size_t at = 0;
  for (const Bucket& bucket : plan_buckets(plan, 64, 1024)) {
    EXPECT_EQ(bucket.offset_bytes, at);
    at += bucket.bytes;
  }
  EXPECT_EQ(at, plan.flat_bytes);
}

TEST(GradientBucketer, StartsBucketsInIndexOrderWhateverOrderGradientsBecomeReady) {
  std::vector<std::size_t> started;
  GradientBucketer bucketer(plan_buckets(plan_of({64, 64, 64}), 1, 1),
                            [&](std::size_t b) { started.push_back(b); });
  ASSERT_EQ(bucketer.buckets().size(), 3u);
  bucketer.begin_pass();
  bucketer.ready(2);
  bucketer.ready(1);
  EXPECT_TRUE(started.empty());
  bucketer.ready(0);
  EXPECT_THAT(started, ElementsAre(0u, 1u, 2u));
}

TEST(GradientBucketer, StartsBucketsOfNoParametersWithThePass) {
  std::vector<std::size_t> started;
  GradientBucketer bucketer({{0, 0, 0}, {0, 0, 0}}, [&](std::size_t b) { started.push_back(b); });
  bucketer.begin_pass();
  EXPECT_THAT(started, ElementsAre(0u, 1u));
}

TEST(GradientBucketer, StartsEveryBucketAgainInTheNextPass) {
  int starts = 0;
  GradientBucketer bucketer(plan_buckets(plan_of({64, 64}), 1, 1), [&](std::size_t) { ++starts; });
  for (int pass = 1; pass <= 3; ++pass) {
    bucketer.begin_pass();
    bucketer.ready(0);
    bucketer.ready(1);
    EXPECT_EQ(starts, 2 * pass);
  }
}

TEST(GradientBucketer, RefusesAGradientThatWasReadyAlready) {
  GradientBucketer bucketer(plan_buckets(plan_of({64, 64}), 1, 1), [](std::size_t) {});
  bucketer.begin_pass();
  bucketer.ready(0);
  EXPECT_THROW(bucketer.ready(0), InternalError);
  EXPECT_THROW(bucketer.ready(2), InternalError);
}

TEST(ServerShards, CoverTheBufferAtAlignedBoundaries) {
  const auto plan = plan_of({1000, 4, 200});
  for (const int servers : {1, 2, 3, 5}) {
    std::size_t at = 0;
    for (const Bucket& shard : plan_shards(plan.flat_bytes, servers, &plan)) {
      EXPECT_EQ(shard.offset_bytes, at);
      EXPECT_EQ(shard.offset_bytes % 64, 0u);
      at += shard.bytes;
    }
    EXPECT_EQ(at, plan.flat_bytes);
  }
}

TEST(ServerShards, WaitForAllParametersThatTheyTouch) {
  const auto plan = plan_of({640, 128, 640});  // the cut, at 704 bytes, is within the second
  const auto shards = plan_shards(plan.flat_bytes, 2, &plan);
  EXPECT_EQ(shards[0].end_parameter, 2u);
  EXPECT_EQ(shards[1].end_parameter, 3u);
}

TEST(ServerShards, AreEmptyWhenThereAreMoreServersThanData) {
  const auto plan = plan_of({64});
  const auto shards = plan_shards(plan.flat_bytes, 3, &plan);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[0].bytes + shards[1].bytes + shards[2].bytes, 64u);
}

}  // namespace
}  // namespace ddpbench
