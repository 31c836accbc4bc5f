// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/draw_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace ddpbench::data {
namespace {

using testing::Each;

TEST(DrawSamples, DrawsEachSampleOnce) {
  for (const std::size_t count : {0U, 1U, 255U, 257U, 10007U}) {
    std::vector<int> drawn(count);
    draw_samples(count, [&](std::size_t i) { ++drawn.at(i); });
    EXPECT_THAT(drawn, Each(1)) << count;
  }
}

TEST(DrawSamples, HandsOnWhatOneOfTheThreadsThrows) {
  for (const std::size_t bad : {0U, 9999U}) {
    EXPECT_THROW(draw_samples(10000,
                              [&](std::size_t i) {
                                if (i == bad) throw std::runtime_error("no ink");
                              }),
                 std::runtime_error)
        << bad;
  }
}

}  // namespace
}  // namespace ddpbench::data
