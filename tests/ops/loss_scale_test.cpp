// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loss scaling on the host's backends: how the scale moves, what overflows, and what an update does
// with scaled gradients.
#include "kernels/ops/loss_scale.h"

#include <cmath>
#include <limits>

#include "kernels/ops/optimizer.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TEST(LossScale, HalvesWhenGradientsOverflowAndDoublesAfterAWhile) {
  LossScale scale;
  for (const float expected : {32768.0F, 16384.0F}) {
    scale.overflow = 1;
    end_scaled_step(scale);
    EXPECT_EQ(scale.scale, expected);
    EXPECT_EQ(scale.last_scale, 2 * expected);
    EXPECT_TRUE(scale.last_skipped);
    EXPECT_EQ(scale.overflow, 0);
  }
  for (int step = 1; step < kGrowthInterval; ++step) end_scaled_step(scale);
  EXPECT_EQ(scale.scale, 16384);
  EXPECT_FALSE(scale.last_skipped);
  end_scaled_step(scale);
  EXPECT_EQ(scale.scale, 32768);
  EXPECT_EQ(scale.last_scale, 16384);
  EXPECT_EQ(scale.skipped, 2);
  scale.overflow = 1;  // counts anew
  end_scaled_step(scale);
  for (int step = 1; step < kGrowthInterval; ++step) end_scaled_step(scale);
  EXPECT_EQ(scale.scale, 16384);
}

TEST(LossScale, IsNeverBelowOne) {
  LossScale scale;
  for (int step = 0; step < 40; ++step) {
    scale.overflow = 1;
    end_scaled_step(scale);
  }
  EXPECT_EQ(scale.scale, 1);
  EXPECT_EQ(scale.skipped, 40);
}

TEST(LossScale, OverflowIsFoundWhereverItIs) {
  for (BackendFixture& fixture : all_backends()) {
    for (const std::size_t count : {1, 17, 40009}) {
      Values gradients = random_values(static_cast<std::int64_t>(count), 1);
      gradients[count / 2] = std::numeric_limits<float>::max();
      LossScale scale;
      const auto found = [&] {
        scale.overflow = 0;
        fixture.backend().find_overflow(fixture.stream(), gradients.data(), count, &scale);
        return scale.overflow;
      };
      EXPECT_EQ(found(), 0) << count;
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        for (const float value : {kInfinite, -kInfinite, std::nanf("")}) {
          const float before = std::exchange(gradients[at], value);
          EXPECT_EQ(found(), 1) << at << " of " << count;
          gradients[at] = before;
        }
      }
      scale.overflow = 1;  // of another buffer
      fixture.backend().find_overflow(fixture.stream(), gradients.data(), count, &scale);
      EXPECT_EQ(scale.overflow, 1);
    }
  }
}

// Scales are powers of two, so the bits are those of the gradients without.
TEST(LossScale, AnUpdateTakesItOutOrIsSkipped) {
  constexpr std::size_t kCount = 67;
  const OptimizerOptions all[] = {{.momentum = 0}, {.lr = 0.1}, {.kind = OptimizerKind::adam}};
  for (BackendFixture& fixture : all_backends()) {
    for (const OptimizerOptions& options : all) {
      const std::size_t bytes = optimizer_state_bytes(options, kCount);
      std::vector<double> plain_state(bytes / 8 + 8), scaled_state(bytes / 8 + 8);
      const Values gradients = random_values(kCount, 2);
      Values plain = random_values(kCount, 1), scaled = plain, of_loss = gradients;
      LossScale scale{.scale = 1024};
      for (float& gradient : of_loss) gradient *= scale.scale;
      OptimizerArgs args{.weights = plain.data(),
                         .gradients = gradients.data(),
                         .state = plain_state.data(),
                         .count = kCount,
                         .grad_scale = 0.5F,
                         .options = options};
      OptimizerArgs with = args;
      with.weights = scaled.data(), with.gradients = of_loss.data();
      with.state = scaled_state.data(), with.loss_scale = &scale;
      for (const bool overflows : {false, true, false}) {
        scale.overflow = overflows ? 1 : 0;
        fixture.backend().update(fixture.stream(), with);
        if (!overflows) fixture.backend().update(fixture.stream(), args);
        EXPECT_EQ(scaled, plain);
        EXPECT_EQ(scaled_state, plain_state);
      }
    }
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
