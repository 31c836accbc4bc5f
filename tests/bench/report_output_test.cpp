// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/report_output.h"

#include <gtest/gtest.h>

namespace ddpbench::bench {
namespace {

TEST(SavePace, SavesAtFirstAndWhileItIsCheap) {
  SavePace pace;
  EXPECT_TRUE(pace.due(0));
  pace.saved(10, 10.01);
  EXPECT_TRUE(pace.due(10.01));
}

TEST(SavePace, RestsTwentyTimesWhatTheLastSaveTook) {
  SavePace pace;
  pace.saved(10, 12);
  EXPECT_FALSE(pace.due(12));
  EXPECT_FALSE(pace.due(51.9));
  EXPECT_TRUE(pace.due(52));
}

}  // namespace
}  // namespace ddpbench::bench
