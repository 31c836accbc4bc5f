// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ddpbench::report {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Critical values from printed tables (Abramowitz and Stegun, table 26.10): of n values with
// deviation s, the margin is t s / sqrt(n) with n - 1 degrees of freedom.
TEST(Comparison, HasTheMarginsOfPrintedTables) {
  const Comparison three = compare({{1, 2, 3, 4}});
  EXPECT_EQ(three.dof, 3);
  EXPECT_NEAR(three.margin(0.025), 3.182 * std::sqrt(5.0 / 3 / 4), 5e-4);
  const Comparison one = compare({{1}, {3, 5}});
  EXPECT_EQ(one.dof, 1);
  EXPECT_EQ(one.difference, 3);
  EXPECT_NEAR(one.margin(0.05), 6.314 * std::sqrt(2.0 * 1.5), 2e-3);
}

TEST(Comparison, GivesOneSidedProbabilities) {
  const Comparison found = compare({{1, 2, 3}, {2, 3, 4}});
  EXPECT_NEAR(found.p_above() + found.p_below(), 1, 1e-12);
  EXPECT_NEAR(found.p_above(), 0.144, 5e-4);  // t = 1.2247, 4 degrees of freedom
  EXPECT_DOUBLE_EQ(compare({{1, 2}, {1, 2}}).p_above(), 0.5);
}

TEST(Comparison, KnowsNoNoiseOfOneValueASide) {
  const Comparison alone = compare({{1}, {2}});
  EXPECT_FALSE(alone.noise_known);
  EXPECT_EQ(alone.difference, 1);
  const Comparison within = compare({{1}, {2}}, {.variance = 4, .dof = 18});
  EXPECT_TRUE(within.noise_known);
  EXPECT_DOUBLE_EQ(within.error, std::sqrt(8.0));
  const Comparison equal = compare({{1, 1}, {2, 2}});
  EXPECT_TRUE(equal.noise_known);
  EXPECT_EQ(equal.margin(0.05), 0);
  EXPECT_EQ(equal.p_above(), 0);
  EXPECT_EQ(equal.p_below(), 1);
}

TEST(Ratios, AreOfGeometricMeans) {
  const RatioInterval found = compare_ratios({8, 2}, {1, 1});
  EXPECT_NEAR(found.ratio, 4, 1e-12);
  EXPECT_NEAR(*found.low * *found.high, 16, 1e-9);
  EXPECT_FALSE(compare_ratios({2}, {1}).low);
  EXPECT_NEAR(compare_ratios({2, 8}).ratio, 4, 1e-12);
}

// With 95 %, of one side and of two.
TEST(Ratios, HoldTheTrueOneAsOftenAsTheySay) {
  std::mt19937 engine(1);
  std::lognormal_distribution<double> above(std::log(2.0), 0.3), below(0.0, 0.3);
  constexpr int kTrials = 2000;
  for (const int n : {3, 6, 12, 25}) {
    int covered = 0, of_one = 0;
    for (int t = 0; t < kTrials; ++t) {
      std::vector<double> values, divisors;
      for (int i = 0; i < n; ++i) {
        values.push_back(above(engine));
        divisors.push_back(below(engine));
      }
      const RatioInterval both = compare_ratios(values, divisors), one = compare_ratios(values);
      covered += *both.low <= 2 && 2 <= *both.high ? 1 : 0;
      of_one += *one.low <= 2 && 2 <= *one.high ? 1 : 0;
    }
    EXPECT_GE(covered, kTrials * 0.93) << n;
    EXPECT_GE(of_one, kTrials * 0.93) << n;
  }
}

TEST(Holm, AdjustsStepByStepAndNeverFalls) {
  const double p[] = {0.01, 0.04, 0.03, 0.005};
  EXPECT_THAT(holm_adjusted(p), ElementsAre(DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12),
                                            DoubleNear(0.06, 1e-12), DoubleNear(0.02, 1e-12)));
  const double large[] = {0.9, 0.8};
  EXPECT_THAT(holm_adjusted(large), ElementsAre(1, 1));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

TEST(PooledVariance, CountsDeviationsFromEachGroupsOwnMean) {
  const std::vector<double> groups[] = {{1, 3}, {10, 10, 13}, {7}};
  const VarianceEstimate estimate = pooled_variance(groups);
  EXPECT_EQ(estimate.dof, 3);
  EXPECT_DOUBLE_EQ(estimate.variance, (2.0 + 6.0) / 3);
  const std::vector<double> single[] = {{1}, {2}};
  EXPECT_EQ(pooled_variance(single).dof, 0);
}

TEST(Outliers, AreDrawnInToThreeDeviationsAndTheRestIsLeft) {
  std::vector<double> sides[] = {{-1, 0, 1, 0.5, 40}, {10, 11, 9, 10.5, 9.5}};
  const std::vector<double> untouched = sides[1];
  EXPECT_EQ(draw_in_outliers(sides), 1);
  EXPECT_EQ(sides[1], untouched);
  EXPECT_LT(sides[0][4], 6);
  EXPECT_GT(sides[0][4], 2);
  EXPECT_EQ(sides[0][0], -1);
}

TEST(Outliers, AreLeftWhereTooFewOrEqualValuesTellNothing) {
  std::vector<double> few[] = {{0, 0.1, 9}, {0, 0.1, 0.2}};
  EXPECT_EQ(draw_in_outliers(few), 0);
  std::vector<double> equal[] = {{1, 1, 1, 1, 9}, {1, 1, 1, 1, 1}};
  EXPECT_EQ(draw_in_outliers(equal), 0);
  EXPECT_EQ(equal[0].back(), 9);
  std::vector<double> noisy[] = {{-30, -10, 0, 20, 40}, {0, 1, 2, -1, -2}};
  EXPECT_EQ(draw_in_outliers(noisy), 0);
  EXPECT_EQ(noisy[0].back(), 40);
}

TEST(RepetitionsToDecide, GrowWithTheSquareOfTheNoise) {
  const auto quiet = repetitions_to_decide(0.03, 0.05, 0.05, 1000);
  const auto noisy = repetitions_to_decide(0.12, 0.05, 0.05, 1000);
  ASSERT_TRUE(quiet && noisy);
  EXPECT_GE(*quiet, 3);
  EXPECT_LE(*quiet, 6);
  EXPECT_NEAR(*noisy, 16.0 * *quiet, 24);
  EXPECT_FALSE(repetitions_to_decide(10, 0.05, 0.05, 1000));
  EXPECT_EQ(repetitions_to_decide(0, 0.05, 0.05, 1000), 2);
}

}  // namespace
}  // namespace ddpbench::report
