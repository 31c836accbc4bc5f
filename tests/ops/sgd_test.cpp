// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SGD of both backends against torch.optim.SGD's formula in double precision.
#include <cmath>
#include <limits>

#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

struct State {
  Values weights, gradients, velocity;
};

State make_state(std::size_t count) {
  const auto n = static_cast<std::int64_t>(count);
  return {random_values(n, 1), random_values(n, 2), Values(count)};
}

// The last count is long enough to be split over a team, and no vector divides it.
constexpr std::size_t kSgdCounts[] = {0, 1, 15, 17, 40009};
constexpr int kSteps = 3;

void check_against_torch(BackendFixture& fixture, std::size_t count, const SgdOptions& o,
                         float grad_scale) {
  State state = make_state(count);
  const State start = state;
  for (int step = 0; step < kSteps; ++step)
    fixture.backend().sgd()->run(fixture.stream(),
                                 {.weights = state.weights.data(),
                                  .gradients = state.gradients.data(),
                                  .velocity = o.momentum == 0 ? nullptr : state.velocity.data(),
                                  .count = count,
                                  .grad_scale = grad_scale,
                                  .options = o});
  for (std::size_t k = 0; k < count; ++k) {
    double w = start.weights[k], v = 0;
    for (int step = 0; step < kSteps; ++step) {
      const double g = start.gradients[k] * static_cast<double>(grad_scale) + o.weight_decay * w;
      v = o.momentum * v + g;
      w -= o.lr * v;
    }
    // Five roundings a step, of values below 3. Those of v count by lr < 1.
    ASSERT_NEAR(state.weights[k], w, kSteps * 5 * 3 * kEpsilon) << k << " of " << count;
    if (o.momentum != 0) {
      ASSERT_NEAR(state.velocity[k], v, kSteps * 5 * 3 * kEpsilon);
    }
  }
}

TEST(Sgd, FollowsTorchWithMomentumAndWeightDecay) {
  for (BackendFixture& fixture : all_backends())
    for (const std::size_t count : kSgdCounts)
      check_against_torch(fixture, count, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 0.5F);
}

TEST(Sgd, NeedsNoVelocityWithoutMomentum) {
  for (BackendFixture& fixture : all_backends())
    for (const std::size_t count : kSgdCounts)
      check_against_torch(fixture, count, {.lr = 0.1, .momentum = 0, .weight_decay = 0.01}, 0.5F);
}

TEST(Sgd, LeavesZeroPaddingZero) {
  for (BackendFixture& fixture : all_backends()) {
    Values weights(16), gradients(16), velocity(16);
    fixture.backend().sgd()->run(fixture.stream(), {.weights = weights.data(),
                                                    .gradients = gradients.data(),
                                                    .velocity = velocity.data(),
                                                    .count = 16,
                                                    .options = {.weight_decay = 0.1}});
    EXPECT_TRUE(all_near(weights, Values(16), 0));
    EXPECT_TRUE(all_near(velocity, Values(16), 0));
  }
}

TEST(Sgd, GivesEqualBitsForEveryTeamSize) {
  std::vector<Values> results;
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    State state = make_state(40009);
    fixture.backend().sgd()->run(fixture.stream(), {.weights = state.weights.data(),
                                                    .gradients = state.gradients.data(),
                                                    .velocity = state.velocity.data(),
                                                    .count = 40009});
    results.push_back(state.weights);
  }
  for (const Values& weights : results) EXPECT_TRUE(same_bits(weights, results[0]));
}

}  // namespace
}  // namespace ddpbench::ops::testing
