// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The optimizers of both host backends: against their formulas in double precision, and against
// PyTorch.
#include "kernels/ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

using enum OptimizerKind;

struct NamedOptions {
  std::string name;
  OptimizerOptions options;
};

const std::vector<NamedOptions>& all_options() {
  static const std::vector<NamedOptions> all = {
      {"momentum", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}},
      {"nesterov", {.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}},
      {"plain", {.lr = 0.1, .momentum = 0, .weight_decay = 0.01}},
      {"adam", {.kind = adam, .lr = 0.1, .weight_decay = 0.01}},
      {"scheduled",
       {.lr = 0.1, .schedule = {.kind = ScheduleKind::step, .gamma = 0.5, .warmup_steps = 1}}},
      {"scheduled_adamw",
       {.kind = adamw,
        .lr = 0.1,
        .weight_decay = 0.1,
        .schedule = {.kind = ScheduleKind::cosine, .cosine_steps = 3}}},
      {"adamw", {.kind = adamw, .lr = 0.1, .beta1 = 0.5, .epsilon = 1e-3, .weight_decay = 0.1}}};
  return all;
}

// The state of an optimizer for `count` elements, at step 0.
class StateMemory {
 public:
  StateMemory(const OptimizerOptions& options, std::size_t count)
      : memory_(optimizer_state_bytes(options, count)) {
    std::fill_n(memory_.data(), memory_.bytes(), std::byte{});
  }
  void* data() const { return memory_.bytes() > 0 ? memory_.data() : nullptr; }

 private:
  OpMemory memory_;
};

// One element in double precision.
struct Exact {
  double w, first = 0, second = 0;

  void update(const OptimizerOptions& o, int step, double raw) {
    const double g = raw + (o.kind == adamw ? 0 : o.weight_decay * w);
    const double lr = learning_rate(o, step - 1);
    if (o.kind == sgd) {
      first = o.momentum * first + g;
      w -= lr * (o.nesterov ? g + o.momentum * first : first);
      return;
    }
    first = o.beta1 * first + (1 - o.beta1) * g;
    second = o.beta2 * second + (1 - o.beta2) * g * g;
    if (o.kind == adamw) w *= 1 - lr * o.weight_decay;
    const double mean = first / (1 - std::pow(o.beta1, step));
    w -= lr * mean / (std::sqrt(second / (1 - std::pow(o.beta2, step))) + o.epsilon);
  }
};

// The last count is long enough to be split over a team, and no vector divides it.
constexpr std::size_t kCounts[] = {0, 1, 15, 17, 40009};
constexpr int kSteps = 3;

void check_against_formula(BackendFixture& fixture, std::size_t count, const OptimizerOptions& o) {
  constexpr float kScale = 0.5F;
  const auto n = static_cast<std::int64_t>(count);
  const Values start = random_values(n, 1), gradients = random_values(n, 2);
  Values weights = start;
  const StateMemory state(o, count);
  for (int step = 0; step < kSteps; ++step)
    fixture.backend().update(fixture.stream(), {.weights = weights.data(),
                                                .gradients = gradients.data(),
                                                .state = state.data(),
                                                .count = count,
                                                .grad_scale = kScale,
                                                .options = o});
  for (std::size_t k = 0; k < count; ++k) {
    Exact exact{start[k]};
    for (int step = 1; step <= kSteps; ++step) exact.update(o, step, gradients[k] * kScale);
    // At most a dozen roundings a step, of values below 3.
    ASSERT_NEAR(weights[k], exact.w, kSteps * 12 * 3 * kEpsilon) << k << " of " << count;
    const OptimizerState parts = optimizer_state(o, state.data(), count);
    for (std::size_t slot = 0; slot < slot_count(o); ++slot) {
      const double expected = slot == 0 ? exact.first : exact.second;
      ASSERT_NEAR(parts.slots[slot][k], expected, kSteps * 12 * 3 * kEpsilon) << k << " " << slot;
    }
  }
}

TEST(Optimizer, FollowsItsFormula) {
  for (BackendFixture& fixture : all_backends())
    for (const auto& [name, options] : all_options())
      for (const std::size_t count : kCounts) {
        SCOPED_TRACE(name);
        check_against_formula(fixture, count, options);
      }
}

// Parameters that lie apart share one state, which counts an update once.
TEST(Optimizer, UpdatesPartsAsItUpdatesAll) {
  constexpr std::size_t kCount = 67, kCuts[] = {0, 16, 48, kCount};
  for (BackendFixture& fixture : all_backends()) {
    for (const auto& [name, options] : all_options()) {
      SCOPED_TRACE(name);
      const Values gradients = random_values(kCount, 2);
      Values whole = random_values(kCount, 1), parts = whole;
      const StateMemory of_whole(options, kCount), of_parts(options, kCount);
      for (int step = 0; step < kSteps; ++step) {
        fixture.backend().update(fixture.stream(), {.weights = whole.data(),
                                                    .gradients = gradients.data(),
                                                    .state = of_whole.data(),
                                                    .count = kCount,
                                                    .options = options});
        for (std::size_t part = 0; part + 1 < std::size(kCuts); ++part) {
          const std::size_t first = kCuts[part];
          fixture.backend().update(fixture.stream(), {.weights = parts.data() + first,
                                                      .gradients = gradients.data() + first,
                                                      .state = of_parts.data(),
                                                      .count = kCuts[part + 1] - first,
                                                      .state_count = kCount,
                                                      .state_first = first,
                                                      .options = options});
        }
      }
      EXPECT_EQ(parts, whole);
    }
  }
}

struct Recorded {
  OptimizerOptions options;
  Values weights;
};

// Six updates of w by gradients of ((7 k + 5 i) mod 11 - 5) / 64 for element i in update k, both
// from 0, by the optimizers of PyTorch 1.13. The last element has none.
std::vector<Recorded> recorded() {
  return {
      {{.lr = 0.1, .weight_decay = 0.01},
       {0.506051183F, -0.220208958F, 1.43600428F, -1.94398463F, 0.11320398F, 0}},
      {{.lr = 0.1, .nesterov = true, .weight_decay = 0.01},
       {0.505479515F, -0.213983357F, 1.42903328F, -1.93786728F, 0.118442968F, 0}},
      {{.kind = adam, .lr = 0.01},
       {0.516553938F, -0.232513145F, 1.47079122F, -1.97391975F, 0.108710259F, 0}},
      {{.kind = adam,
        .lr = 0.02,
        .beta1 = 0.8,
        .beta2 = 0.99,
        .epsilon = 1e-3,
        .weight_decay = 0.1},
       {0.453299761F, -0.166229337F, 1.38814533F, -1.88527322F, 0.0824033394F, 0}},
      {{.kind = adamw, .lr = 0.02, .weight_decay = 0.1},
       {0.526839912F, -0.212202758F, 1.42407811F, -1.92438066F, 0.0912442803F, 0}},
      {{.kind = adamw,
        .lr = 0.05,
        .beta1 = 0.5,
        .beta2 = 0.9,
        .epsilon = 1e-6,
        .weight_decay = 0.01},
       {0.535056829F, -0.161772057F, 1.40800321F, -1.91722596F, 0.104770377F, 0}},
  };
}

TEST(Optimizer, EqualsPyTorchOverSixUpdates) {
  for (BackendFixture& fixture : all_backends()) {
    for (const auto& [options, expected] : recorded()) {
      Values weights = {0.5, -0.25, 1.5, -2, 0.125, 0}, gradients(6);
      const StateMemory state(options, weights.size());
      for (int k = 0; k < 6; ++k) {
        for (int i = 0; i < 5; ++i)
          gradients[static_cast<std::size_t>(i)] =
              static_cast<float>((7 * k + 5 * i) % 11 - 5) / 64;
        fixture.backend().update(fixture.stream(), {.weights = weights.data(),
                                                    .gradients = gradients.data(),
                                                    .state = state.data(),
                                                    .count = weights.size(),
                                                    .options = options});
      }
      // Six updates, each with a rounding or two of a weight of up to 2.
      EXPECT_TRUE(all_near(weights, expected, 2e-6)) << to_string(options.kind);
    }
  }
}

struct RecordedRates {
  std::string name;
  LrSchedule schedule;
  std::vector<double> rates;
};

// The rates of 14 updates that begin with 0.1, by the schedulers of PyTorch 1.13; those that warm
// up are SequentialLR with LinearLR before.
std::vector<RecordedRates> recorded_rates() {
  using enum ScheduleKind;
  return {
      {"StepLR",
       {.kind = step, .step_size = 4, .gamma = 0.5},
       {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.0125, 0.0125}},
      {"CosineAnnealingLR",
       {.kind = cosine, .cosine_steps = 6, .least = 0.01},
       {0.1, 0.0939711431703, 0.0775, 0.055, 0.0325, 0.0160288568297, 0.01, 0.0160288568297, 0.0325,
        0.055, 0.0775, 0.0939711431703, 0.1, 0.0939711431703}},
      {"LinearLR",
       {.warmup_steps = 5},
       {0.001, 0.0208, 0.0406, 0.0604, 0.0802, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
      {"LinearLR and StepLR",
       {.kind = step, .step_size = 4, .gamma = 0.5, .warmup_steps = 5, .warmup_factor = 0.1},
       {0.01, 0.028, 0.046, 0.064, 0.082, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025}},
      {"LinearLR and CosineAnnealingLR",
       {.kind = cosine, .cosine_steps = 11, .warmup_steps = 3},
       {0.001, 0.034, 0.067, 0.1, 0.0979746486807, 0.0920626766416, 0.0827430366973,
        0.0707707506501, 0.0571157419137, 0.0428842580863, 0.0292292493499, 0.0172569633027,
        0.00793732335844, 0.00202535131928}},
  };
}

TEST(LearningRate, EqualsThatOfPyTorchsSchedulersInEachStep) {
  for (const auto& [name, schedule, rates] : recorded_rates()) {
    const OptimizerOptions options{.lr = 0.1, .schedule = schedule};
    EXPECT_TRUE(options.counts_updates());
    for (std::size_t k = 0; k < rates.size(); ++k) {
      EXPECT_NEAR(learning_rate(options, static_cast<std::int64_t>(k)), rates[k], 1e-12)
          << name << " " << k;
    }
  }
  EXPECT_EQ(learning_rate({.lr = 0.1}, 1000), 0.1);
}

TEST(Optimizer, LeavesZeroPaddingZero) {
  for (BackendFixture& fixture : all_backends())
    for (const auto& [name, options] : all_options()) {
      Values weights(16), gradients(16);
      const StateMemory state(options, 16);
      fixture.backend().update(fixture.stream(), {.weights = weights.data(),
                                                  .gradients = gradients.data(),
                                                  .state = state.data(),
                                                  .count = 16,
                                                  .options = options});
      EXPECT_TRUE(all_near(weights, Values(16), 0)) << name;
    }
}

TEST(Optimizer, GivesEqualBitsForEveryTeamSize) {
  for (const auto& [name, options] : all_options()) {
    std::vector<Values> results;
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      Values weights = random_values(40009, 1);
      const Values gradients = random_values(40009, 2);
      const StateMemory state(options, weights.size());
      for (int step = 0; step < kSteps; ++step)
        fixture.backend().update(fixture.stream(), {.weights = weights.data(),
                                                    .gradients = gradients.data(),
                                                    .state = state.data(),
                                                    .count = weights.size(),
                                                    .options = options});
      results.push_back(weights);
    }
    for (const Values& weights : results) EXPECT_TRUE(same_bits(weights, results[0])) << name;
  }
}

// A server updates a part of what the reference updates as a whole: a vector begins elsewhere.
TEST(Optimizer, GivesEqualBitsForAPartOfTheParameters) {
  constexpr std::size_t kCount = 1000, kBegin = 16, kEnd = 955;
  for (const auto& [name, options] : all_options()) {
    BackendFixture fixture = BackendFixture::onednn();
    Values whole = random_values(kCount, 1), part = whole;
    const Values gradients = random_values(kCount, 2);
    const StateMemory of_whole(options, kCount), of_part(options, kEnd - kBegin);
    for (int step = 0; step < kSteps; ++step) {
      fixture.backend().update(fixture.stream(), {.weights = whole.data(),
                                                  .gradients = gradients.data(),
                                                  .state = of_whole.data(),
                                                  .count = kCount,
                                                  .options = options});
      fixture.backend().update(fixture.stream(), {.weights = part.data() + kBegin,
                                                  .gradients = gradients.data() + kBegin,
                                                  .state = of_part.data(),
                                                  .count = kEnd - kBegin,
                                                  .options = options});
    }
    std::copy_n(part.begin(), kBegin, whole.begin());
    std::copy(part.begin() + kEnd, part.end(), whole.begin() + kEnd);
    EXPECT_TRUE(same_bits(part, whole)) << name;
  }
}

TEST(OptimizerState, HasASlotForEachTensorThatIsKept) {
  constexpr std::size_t kCount = 100, kSlot = 448, kStep = 64;  // 400 bytes, rounded up
  EXPECT_EQ(optimizer_state_bytes({.momentum = 0}, kCount), 0);
  EXPECT_EQ(optimizer_state_bytes({.momentum = 0.5}, kCount), kSlot);
  EXPECT_EQ(optimizer_state_bytes({.momentum = 0, .schedule = {.warmup_steps = 1}}, kCount), kStep);
  EXPECT_EQ(optimizer_state_bytes({.kind = adam}, kCount), 2 * kSlot + kStep);
  EXPECT_EQ(optimizer_state_bytes({.kind = adamw}, kCount), 2 * kSlot + kStep);
}

TEST(OptimizerState, RefusesToUpdateWithoutMemory) {
  for (BackendFixture& fixture : all_backends()) {
    Values weights(1), gradients(1);
    EXPECT_THROW(
        fixture.backend().update(
            fixture.stream(),
            {.weights = weights.data(), .gradients = gradients.data(), .count = 1, .options = {}}),
        InternalError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
