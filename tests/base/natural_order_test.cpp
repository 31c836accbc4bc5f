// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <compare>

namespace ddpbench {
namespace {

TEST(NaturalOrder, ComparesNumbersByTheirValues) {
  const char* const ordered[] = {"",
                                 "08",
                                 "8",
                                 "9",
                                 "16",
                                 "100000000000000000000000",
                                 "batch 8",
                                 "batch 16",
                                 "batch 16, cap 0.25",
                                 "batch 16, cap 0.5",
                                 "batch 16, cap 2.5",
                                 "batch 16, cap 25",
                                 "batch 32",
                                 "batches"};
  for (const char* a : ordered) {
    for (const char* b : ordered) {
      EXPECT_EQ(natural_order(a, b),
                std::ranges::find(ordered, a) <=> std::ranges::find(ordered, b))
          << a << " / " << b;
    }
  }
  EXPECT_TRUE(std::is_gt(natural_order("1.50", "1.5"))) << "equal values, other characters";
  EXPECT_TRUE(std::is_gt(natural_order("1.2.10", "1.2.9")));
  EXPECT_TRUE((NaturalName{"x8"} < NaturalName{"x16"}));
  EXPECT_FALSE((NaturalName{"x8"} == NaturalName{"x08"}));
}

}  // namespace
}  // namespace ddpbench
