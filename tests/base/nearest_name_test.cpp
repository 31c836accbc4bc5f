// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/nearest_name.h"

namespace ddpbench {
namespace {

const std::vector<std::string> kKnown = {"batch-size", "global-batch-size", "gpus", "servers",
                                         "lr"};

TEST(NearestName, FindsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(nearest_name("gpuss", kKnown), "gpus");
  EXPECT_EQ(nearest_name("gps", kKnown), "gpus");
  EXPECT_EQ(nearest_name("gqus", kKnown), "gpus");
  EXPECT_EQ(nearest_name("gups", kKnown), "gpus");
  EXPECT_EQ(nearest_name("rl", kKnown), "lr");
}

TEST(NearestName, IgnoresCaseAndTheKindOfDash) {
  EXPECT_EQ(nearest_name("Batch_Size", kKnown), "batch-size");
}

TEST(NearestName, FindsPartsOfNames) {
  EXPECT_EQ(nearest_name("batch", kKnown), "batch-size");
  EXPECT_EQ(nearest_name("num-gpus", kKnown), "gpus");
}

TEST(NearestName, SuggestsNothingThatHasLittleInCommon) {
  EXPECT_EQ(nearest_name("frobnicate", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("x", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("gpus", {}), std::nullopt);
}

TEST(NearestName, PrefersTheSmallerDistance) {
  EXPECT_EQ(nearest_name("ddpp", {"dp", "ddp", "ps"}), "ddp");
}

}  // namespace
}  // namespace ddpbench
