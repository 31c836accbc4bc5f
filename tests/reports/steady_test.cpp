// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a warm-up, and drift, for made-up series of step times.
#include "reports/metrics/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace ddpbench::report {
namespace {

using Series = std::vector<double>;

Series series(std::size_t steps, const std::function<double(int)>& value) {
  Series result;
  for (std::size_t i = 0; i < steps; ++i) result.push_back(value(static_cast<int>(i)));
  return result;
}

// `value` with normal noise of the relative size `sigma`. The result for a seed is the same
// everywhere: the standard defines the engine exactly, but not its distributions.
Series noisy(std::size_t steps, double sigma, unsigned seed,
             const std::function<double(int)>& value) {
  std::mt19937 engine(seed);
  const auto uniform = [&] { return (static_cast<double>(engine()) + 0.5) / 4294967296.0; };
  return series(steps, [&](int i) {
    const double normal =
        std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979 * uniform());
    return value(i) * (1 + sigma * normal);
  });
}

double level(int) { return 0.02; }

// After how many steps a warm-up ends that is checked every five steps; `limit` if it never does.
std::size_t ends_after(const Series& all, std::size_t limit = 100) {
  for (std::size_t n = kFewestForSteady; n < limit; n += 5) {
    if (is_steady(std::span(all).first(n))) return n;
  }
  return limit;
}

TEST(Steady, FromTheStart) { EXPECT_EQ(ends_after(series(100, level)), kFewestForSteady); }

TEST(Steady, NotWithFewerStepsThanCanBeJudged) {
  EXPECT_FALSE(is_steady(series(kFewestForSteady - 1, level)));
  EXPECT_FALSE(is_steady({}));
}

TEST(Steady, AfterALinearWarmUpAndNotBefore) {
  const auto warming = [](int i) { return i < 40 ? 0.02 * (2 - i / 40.0) : 0.02; };
  EXPECT_GE(ends_after(series(100, warming)), 40u);
  EXPECT_LE(ends_after(series(100, warming)), 70u);
}

TEST(Steady, AfterAnExponentialWarmUp) {
  const auto warming = [](int i) { return 0.02 * (1 + 3 * std::exp(-(i / 8.0))); };
  const std::size_t end = ends_after(series(100, warming));
  EXPECT_LT(end, 70u);
  EXPECT_LT(warming(static_cast<int>(end) - 10),
            0.02 * 1.05);  // the rest of the warm-up is small
}

TEST(Steady, AfterAStepChange) {
  const auto change = [](int i) { return i < 22 ? 0.03 : 0.02; };
  EXPECT_FALSE(is_steady(series(28, change)));
  EXPECT_TRUE(is_steady(series(45, change)));
}

TEST(Steady, InSpiteOfOutliers) {
  const auto spikes = [](int i) { return i % 7 == 3 ? 0.2 : 0.02; };
  EXPECT_EQ(ends_after(series(100, spikes)), kFewestForSteady);
}

TEST(Steady, InSpiteOfNoise) {
  std::size_t most = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    most = std::max(most, ends_after(noisy(100, 0.05, seed, level)));
  }
  EXPECT_LT(most, 60u);
}

TEST(Steady, NoiseDoesNotHideAWarmUp) {
  const auto warming = [](int i) { return i < 30 ? 0.02 * (3 - i / 15.0) : 0.02; };
  int early = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    early += ends_after(noisy(100, 0.03, seed, warming)) < 25 ? 1 : 0;
  }
  EXPECT_LE(early, 10);
}

TEST(Steady, NeverWhenTimesKeepFalling) {
  const auto falling = [](int i) { return std::pow(0.98, static_cast<double>(i)); };
  EXPECT_EQ(ends_after(series(200, falling), 200), 200u);
}

TEST(Steady, ZeroTimesDoNotDivide) { EXPECT_TRUE(is_steady(Series(20, 0.0))); }

TEST(Drift, IsTheChangeFromTheFirstToTheLastThird) {
  const Series rising = series(300, [](int i) { return 1 + i / 1000.0; });
  // Medians of the thirds: 1.0495 and 1.2495.
  EXPECT_NEAR(step_drift(rising).value.value_or(0), 1.2495 / 1.0495 - 1, 1e-12);
  const Series falling = series(300, [](int i) { return 2 - i / 1000.0; });
  EXPECT_LT(step_drift(falling).value.value_or(0), 0);
}

TEST(Drift, IsMissingWithinChance) {
  int found = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    found += step_drift(noisy(120, 0.05, seed, level)).value ? 1 : 0;
  }
  EXPECT_LE(found, 24);  // two standard errors: about one in twenty
  EXPECT_EQ(step_drift(series(100, level)).reason, "no change beyond chance");
}

TEST(Drift, NeedsSteps) {
  EXPECT_THAT(step_drift(series(59, level)).reason, testing::HasSubstr("there are 59"));
}

}  // namespace
}  // namespace ddpbench::report
