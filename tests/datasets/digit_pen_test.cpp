// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/digit_pen.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/random.h"

namespace ddpbench::data {
namespace {

TEST(DigitPen, DrawsTheSameBitsByFourPixelsAndByEight) {
  if (!has_eight_lanes()) GTEST_SKIP() << "the processor takes no eight pixels at once";
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SplitMix64 places(seed);
    std::vector<Polyline> strokes(1 + seed % 3);
    for (Polyline& stroke : strokes) {
      for (int i = 0; i < 4; ++i) {  // also beyond the image
        stroke.push_back({places.uniform(-6, 34), places.uniform(-6, 34)});
      }
      stroke.push_back(stroke.back());
    }
    std::array<std::uint8_t, kDigitPixels> by_four{}, by_eight{};
    SplitMix64 first(seed), second(seed);
    draw_strokes(strokes, 1.3, first, by_four, false);
    draw_strokes(strokes, 1.3, second, by_eight, true);
    ASSERT_EQ(by_four, by_eight) << seed;
    ASSERT_EQ(first.next(), second.next());
  }
}

}  // namespace
}  // namespace ddpbench::data
