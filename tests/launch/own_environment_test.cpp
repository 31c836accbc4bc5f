// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ddpbench::launch {
namespace {

using testing::Contains;
using testing::Not;
using testing::Pair;

TEST(Environment, IsReadAsItIsUntilItIsKept) {
  ::unsetenv("DDPBENCH_TEST_LATE");
  ::setenv("DDPBENCH_TEST_ONLY", "a=b", 1);
  EXPECT_THAT(environment_variables(), Contains(Pair("DDPBENCH_TEST_ONLY", "a=b")));
  EXPECT_EQ(environment_variable("DDPBENCH_TEST_ONLY"), "a=b");
  EXPECT_EQ(environment_variable("DDPBENCH_TEST_LATE"), std::nullopt);
  keep_environment();
  ::setenv("DDPBENCH_TEST_ONLY", "c", 1);
  ::setenv("DDPBENCH_TEST_LATE", "d", 1);
  EXPECT_EQ(environment_variable("DDPBENCH_TEST_ONLY"), "a=b");
  EXPECT_EQ(environment_variable("DDPBENCH_TEST_LATE"), std::nullopt);
  EXPECT_THAT(environment_variables(), Not(Contains(Pair("DDPBENCH_TEST_LATE", "d"))));
}

}  // namespace
}  // namespace ddpbench::launch
