// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

const double kFp32 = std::ldexp(1.0, -24);
const double kBf16 = std::ldexp(1.0, -8);
constexpr double kPositions =
    28 * 28;  // SimpleCNN's first maps: terms of each sample in conv1.weight

TEST(VerificationTolerance, FollowsItsFormula) {
  // lambda = sqrt(2 ln(2 n / 1e-6)) with n = 100: sqrt(2 ln 2e8) = 6.1831; 6.1831 * 10 * 2^-24 * 3.
  EXPECT_NEAR(verification_tolerance(kFp32, 100, 3), 1.10563e-5, 1e-9);
}

TEST(VerificationTolerance, OfSimpleCnnIsFarBelowAnyPlantedFault) {
  for (const double batch : {128.0, 256.0, 512.0, 1024.0}) {
    const double tolerance = verification_tolerance(kFp32, batch * kPositions, 3);
    EXPECT_GT(tolerance, 1e-4) << batch;
    EXPECT_LT(tolerance, 2e-3) << batch;
  }
}

TEST(VerificationTolerance, GrowsWithLengthAndSteps) {
  const double base = verification_tolerance(kFp32, 1e4, 2);
  EXPECT_GT(verification_tolerance(kFp32, 1e5, 2), base);
  EXPECT_NEAR(verification_tolerance(kFp32, 1e4, 4), 2 * base, 1e-12);
}

// The relative error of the smallest planted fault: one rank misses the first of K updates, with
// momentum 0.9 and equal gradients. Update k is (1 - 0.9^k) / 0.1 gradients long.
double stale_rank_error(int steps) {
  double way = 0;
  for (int k = 1; k <= steps; ++k) way += (1 - std::pow(0.9, k)) / 0.1;
  return 1 / way;
}

TEST(VerificationTolerance, NeverLetsAPlantedFaultPassAtAnyPrecisionOrLength) {
  for (const double roundoff : {kFp32, kBf16}) {
    for (const double length : {1.0, 1e5, 1e9, 1e15}) {
      for (const int steps : {1, 2, 3, 10, 100, 1000}) {
        const double tolerance = verification_tolerance(roundoff, length, steps);
        EXPECT_GT(tolerance, 0);
        EXPECT_LT(tolerance, 0.05);
        EXPECT_LT(tolerance, stale_rank_error(steps) / 2) << length << " terms, " << steps;
      }
    }
  }
}

TEST(VerificationTolerance, RefusesWhatIsNoComputation) {
  EXPECT_THROW(verification_tolerance(0, 100, 3), InternalError);
  EXPECT_THROW(verification_tolerance(kFp32, 0, 3), InternalError);
  EXPECT_THROW(verification_tolerance(kFp32, std::numeric_limits<double>::infinity(), 3),
               InternalError);
  EXPECT_THROW(verification_tolerance(kFp32, 100, 0), InternalError);
}

// The relative error of summing n terms of mean `mean` and deviation 1 in fp32 in two orders.
double reordering_error(std::size_t n, double mean, std::uint64_t seed) {
  double squared_difference = 0, squared_sum = 0;
  for (int element = 0; element < 16; ++element) {  // a tensor of 16 elements
    float forward = 0, halves[2] = {0, 0};
    double exact = 0;
    for (std::size_t i = 0; i < n; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const double uniform = static_cast<double>(seed >> 11) * 0x1p-53 - 0.5;
      const auto term = static_cast<float>(mean + uniform * std::sqrt(12.0));
      forward += term;
      halves[i % 2] += term;
      exact += term;
    }
    const double difference =
        static_cast<double>(forward) - static_cast<double>(halves[0] + halves[1]);
    squared_difference += difference * difference;
    squared_sum += exact * exact;
  }
  return std::sqrt(squared_difference / squared_sum);
}

TEST(VerificationTolerance, HoldsForSumsInOtherOrdersWhetherTermsCancelOrNot) {
  for (const double mean : {0.0, 0.01, 1.0}) {
    const double error = reordering_error(20000, mean, 7);
    EXPECT_GT(error, 0);
    EXPECT_LT(error, verification_tolerance(kFp32, 20000, 1)) << "mean " << mean;
  }
}

}  // namespace
}  // namespace ddpbench::report
