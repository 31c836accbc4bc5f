// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace ddpbench::report {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Critical values from printed tables (Abramowitz and Stegun, table 26.10).
TEST(StudentT, HasTheQuantilesOfPrintedTables) {
  EXPECT_NEAR(student_t_quantile(0.95, 1), 6.314, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.95, 2), 2.920, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 3), 3.182, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.95, 8), 1.860, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.995, 9), 3.250, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.99, 30), 2.457, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.05, 8), -1.860, 5e-4);
}

TEST(StudentT, BecomesNormalWithManyDegreesOfFreedom) {
  EXPECT_NEAR(student_t_cdf(1.96, 100000), 0.9750, 1e-4);
  EXPECT_NEAR(student_t_cdf(1.96, 1999), student_t_cdf(1.96, 2000), 1e-4);
  EXPECT_NEAR(normal_quantile(0.9), 1.28155, 1e-5);
}

TEST(StudentT, IsSymmetricAroundZero) {
  for (const int dof : {1, 2, 3, 8, 9}) {
    EXPECT_DOUBLE_EQ(student_t_cdf(0, dof), 0.5);
    EXPECT_NEAR(student_t_cdf(-1.3, dof) + student_t_cdf(1.3, dof), 1, 1e-15);
  }
}

// Known values: digamma(1) = -gamma, trigamma(1) = pi^2 / 6, trigamma(1/2) = pi^2 / 2.
TEST(GammaDerivatives, HaveTheirKnownValues) {
  EXPECT_NEAR(digamma(1), -std::numbers::egamma, 1e-9);
  EXPECT_NEAR(digamma(0.5), -std::numbers::egamma - 2 * std::numbers::ln2, 1e-9);
  EXPECT_NEAR(trigamma(1), std::numbers::pi * std::numbers::pi / 6, 1e-9);
  EXPECT_NEAR(trigamma(0.5), std::numbers::pi * std::numbers::pi / 2, 1e-9);
  for (const double x : {0.01, 0.7, 4.0, 300.0}) {
    EXPECT_NEAR(inverse_trigamma(trigamma(x)), x, 1e-6 * x);
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
  std::vector<double> a = {-1, 0, 1, 0.5, 40}, b = {10, 11, 9, 10.5, 9.5};
  const std::vector<double> untouched = b;
  EXPECT_EQ(draw_in_outliers(a, b), 1);
  EXPECT_EQ(b, untouched);
  EXPECT_LT(a[4], 6);
  EXPECT_GT(a[4], 2);
  EXPECT_EQ(a[0], -1);
}

TEST(Outliers, AreLeftWhereTooFewOrEqualValuesTellNothing) {
  std::vector<double> few = {0, 0.1, 9}, other = {0, 0.1, 0.2};
  EXPECT_EQ(draw_in_outliers(few, other), 0);
  std::vector<double> equal = {1, 1, 1, 1, 9}, same = {1, 1, 1, 1, 1};
  EXPECT_EQ(draw_in_outliers(equal, same), 0);
  EXPECT_EQ(equal.back(), 9);
  std::vector<double> noisy = {-30, -10, 0, 20, 40}, quiet = {0, 1, 2, -1, -2};
  EXPECT_EQ(draw_in_outliers(noisy, quiet), 0);
  EXPECT_EQ(noisy.back(), 40);
}

TEST(ModeratedVariances, AgreeWhereNothingButChanceTellsThemApart) {
  const auto moderated = moderated_variances({{1.0, 8}, {1.2, 8}, {0.9, 8}});
  for (const VarianceEstimate& estimate : moderated) EXPECT_EQ(estimate.dof, 16);
  EXPECT_GT(moderated[2].variance, 0.9);
  EXPECT_LT(moderated[1].variance, 1.2);
}

TEST(ModeratedVariances, StayApartWhereTheyAreTrulyDifferent) {
  const auto moderated = moderated_variances({{1.0, 100}, {1e4, 100}, {1e-4, 100}, {1e2, 100}});
  EXPECT_NEAR(moderated[0].variance, 1.0, 0.05);
  EXPECT_LT(moderated[0].dof, 103);
}

TEST(ModeratedVariances, LeaveTwoEstimatesAndThoseWithoutVarianceAlone) {
  const auto two = moderated_variances({{1.0, 8}, {1.1, 8}});
  EXPECT_EQ(two[0].dof, 8);
  EXPECT_EQ(two[0].variance, 1.0);
  const auto four = moderated_variances({{1.0, 8}, {0.0, 8}, {1.1, 8}, {0.9, 8}});
  EXPECT_EQ(four[1].variance, 0);
  EXPECT_EQ(four[1].dof, 8);
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
