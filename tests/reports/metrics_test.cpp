// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace ddpbench::report {
namespace {

TEST(Quantile, InterpolatesBetweenClosestRanksAsNumpyDoes) {
  // The ranks for n = 5 are q * 4. numpy.quantile([1, 2, 4, 8, 16], [.05, .25, .5, .6, .95, .99]).
  const std::vector<double> sorted = {1, 2, 4, 8, 16};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.6), 5.6);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.95), 14.4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.99), 15.68);
}

TEST(Quantile, EndsAreSmallestAndLargest) {
  const std::vector<double> sorted = {-3, 0, 7};
  EXPECT_EQ(quantile(sorted, 0), -3);
  EXPECT_EQ(quantile(sorted, 1), 7);
}

TEST(Quantile, OfOneValueIsThatValue) {
  const std::vector<double> one = {2.5};
  for (const double q : {0.0, 0.3, 0.5, 1.0}) EXPECT_EQ(quantile(one, q), 2.5);
}

TEST(Quantile, RefusesNoValuesAndFractionsOutsideTheUnitInterval) {
  const std::vector<double> some = {1, 2};
  EXPECT_THROW(quantile({}, 0.5), InternalError);
  EXPECT_THROW(quantile(some, -0.1), InternalError);
  EXPECT_THROW(quantile(some, 1.1), InternalError);
  EXPECT_THROW(quantile(some, std::nan("")), InternalError);
}

TEST(Median, NeedsNoOrderAndAveragesTheMiddleTwo) {
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Summary, HoldsTheQuantilesOfUnsortedValues) {
  const StepStatistics s = summarize({16, 1, 8, 2, 4});
  EXPECT_EQ(s.median, 4);
  EXPECT_EQ(s.iqr.value, 6);  // 8 - 2
  EXPECT_DOUBLE_EQ(s.p5, 1.2);
  EXPECT_DOUBLE_EQ(s.p95, 14.4);
  EXPECT_DOUBLE_EQ(s.p99, 15.68);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 16);
}

TEST(Summary, OfOneValueHasNoSpread) {
  const StepStatistics s = summarize({0.25});
  EXPECT_EQ(s.median, 0.25);
  EXPECT_FALSE(s.iqr.value);
  EXPECT_EQ(s.iqr.reason, "one value has no spread");
  EXPECT_EQ(s.min, s.max);
}

TEST(Summary, OfNothingIsRefused) { EXPECT_THROW(summarize({}), InternalError); }

TEST(SlowestRank, IsTakenStepByStep) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {3, 4, 2.5}, {2, 1, 9}};
  EXPECT_EQ(slowest_rank_per_step(ranks), (std::vector<double>{3, 5, 9}));
}

TEST(SlowestRank, LeavesOutStepsThatNotAllRanksFinished) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {3, 4}};
  EXPECT_EQ(slowest_rank_per_step(ranks), (std::vector<double>{3, 5}));
}

TEST(SlowestRank, IsEmptyWhenARankHasNoStepsOrThereAreNoRanks) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {}};
  EXPECT_TRUE(slowest_rank_per_step(ranks).empty());
  EXPECT_TRUE(slowest_rank_per_step({}).empty());
}

TEST(Bandwidth, CountsGigabytesOfTenToTheNine) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth_gb_per_s(2e9, 0.5), 4);
  EXPECT_THROW(algorithm_bandwidth_gb_per_s(1, 0), InternalError);
}

TEST(Bandwidth, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor("all_reduce", 2), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor("all_reduce", 4), 1.5);
  for (const char* collective : {"all_gather", "reduce_scatter", "gather", "scatter"}) {
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(collective, 4), 0.75) << collective;
  }
  for (const char* collective : {"broadcast", "reduce", "send", "recv"}) {
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(collective, 4), 1) << collective;
  }
  EXPECT_EQ(bus_bandwidth_factor("all_reduce", 1), 0);
}

TEST(Bandwidth, RefusesUnknownCollectivesAndNoRanks) {
  EXPECT_THROW(bus_bandwidth_factor("allreduce", 2), InternalError);
  EXPECT_THROW(bus_bandwidth_factor("all_reduce", 0), InternalError);
}

}  // namespace
}  // namespace ddpbench::report
