// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Transposes between blocked pixels and plain maps.
#include "kernels/ops/cpu/cpu_ops.h"

#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

struct Maps {
  std::int64_t pixels, inner, channels;
};

// Whole tiles, odd remainders in both directions, and blocks that are not full.
constexpr Maps kMaps[] = {{1, 1, 1},   {4, 8, 8},   {49, 16, 16}, {7, 16, 5},
                          {12, 16, 1}, {9, 17, 17}, {3, 8, 3}};

TEST(Transpose, TakesTheRealChannelsOfBlockedPixelsToMaps) {
  for (const auto& [pixels, inner, channels] : kMaps) {
    const Values blocked = random_values(pixels * inner, 1);
    Values maps(static_cast<std::size_t>(channels * pixels));
    cpu::blocked_to_maps(pixels, inner, blocked.data(), maps.data(), channels);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        ASSERT_EQ(maps[static_cast<std::size_t>(c * pixels + p)],
                  blocked[static_cast<std::size_t>(p * inner + c)])
            << "channel " << c << " of " << channels << ", pixel " << p << " of " << pixels;
  }
}

TEST(Transpose, TakesMapsToBlockedPixelsWithZeroPadding) {
  for (const auto& [pixels, inner, channels] : kMaps) {
    const Values maps = random_values(channels * pixels, 1);
    Values blocked(static_cast<std::size_t>(pixels * inner), 7);
    cpu::maps_to_blocked(pixels, inner, maps.data(), blocked.data(), channels);
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < inner; ++c)
        ASSERT_EQ(blocked[static_cast<std::size_t>(p * inner + c)],
                  c < channels ? maps[static_cast<std::size_t>(c * pixels + p)] : 0)
            << "channel " << c << " of " << channels << ", pixel " << p << " of " << pixels;
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
