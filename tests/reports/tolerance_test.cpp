// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

const double kFp32 = std::ldexp(1.0, -24);
const double kBf16 = std::ldexp(1.0, -8);
constexpr double kPositions =
    28 * 28;  // SimpleCNN's first maps: terms of each sample in conv1.weight

TEST(VerificationTolerance, FollowsItsFormula) {
  // lambda = sqrt(2 ln(2 n / 1e-6)) with n = 100: sqrt(2 ln 2e8) = 6.18285; 6.18285 * 10 * 2^-24.
  EXPECT_NEAR(verification_tolerance(kFp32, 100), 3.685267e-6, 1e-11);
}

TEST(VerificationTolerance, OfSimpleCnnIsFarBelowAnyPlantedFault) {
  for (const double batch : {128.0, 256.0, 512.0, 1024.0}) {
    const double tolerance = verification_tolerance(kFp32, batch * kPositions);
    EXPECT_GT(tolerance, 5e-5) << batch;
    EXPECT_LT(tolerance, 5e-4) << batch;
  }
}

// A rank that misses an update is off by all of it.
TEST(VerificationTolerance, NeverLetsAPlantedFaultPassAtAnyPrecisionOrLength) {
  for (const double roundoff : {kFp32, kBf16}) {
    for (const double length : {1.0, 1e5, 1e9, 1e15}) {
      const double tolerance = verification_tolerance(roundoff, length);
      EXPECT_GT(tolerance, 0);
      EXPECT_LE(tolerance, 1.0 / 50) << length << " terms";
    }
  }
}

TEST(VerificationTolerance, RefusesWhatIsNoComputation) {
  EXPECT_THROW(verification_tolerance(0, 100), InternalError);
  EXPECT_THROW(verification_tolerance(kFp32, 0), InternalError);
  EXPECT_THROW(verification_tolerance(kFp32, std::numeric_limits<double>::infinity()),
               InternalError);
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
    EXPECT_LT(error, verification_tolerance(kFp32, 20000)) << "mean " << mean;
  }
}

// Stores `count` weights of about 1 after two updates of about `update`, which differ by the share
// `difference`. Returns the 2-norm of the difference, and the bound on it.
std::pair<double, double> stored_difference(int count, double update, double difference,
                                            std::uint64_t seed) {
  double squared = 0, exact = 0;
  StoredSpacing spacing;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (int i = 0; i < count; ++i) {
    const auto weight = static_cast<float>(normal(random));
    const double first = update * normal(random);
    const double second = first + update * difference * normal(random);
    const auto a = static_cast<float>(weight - first);
    const auto b = static_cast<float>(weight - second);
    squared += std::pow(static_cast<double>(a) - b, 2);
    exact += std::pow(first - second, 2);
    const double step = std::nextafter(std::abs(a), 10.0F) - static_cast<double>(std::abs(a));
    spacing.squared_sum += step * step;
    spacing.largest = std::max(spacing.largest, step);
  }
  return {std::sqrt(squared), stored_difference_bound(std::sqrt(exact), spacing)};
}

TEST(StoredDifference, IsBoundedForUpdatesOfAnySizeBesideTheSpacing) {
  for (const int count : {1, 3, 30, 3000}) {
    for (const double update : {1e-1, 1e-4, 1e-6, 1e-7, 1e-8, 1e-10}) {
      for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const auto [found, bound] = stored_difference(count, update, 1e-6, seed);
        EXPECT_LE(found, bound) << count << " weights, update " << update << ", seed " << seed;
      }
    }
  }
}

// Otherwise small learning rates would hide faults.
TEST(StoredDifference, IsFarLessThanAnUpdateThatStorageKeeps) {
  for (const double update : {1e-4, 1e-6, 1e-7}) {
    const auto bound = stored_difference(3000, update, 1e-6, 1).second;
    EXPECT_LT(bound, 0.1 * update * std::sqrt(3000)) << update;
  }
}

TEST(StoredDifference, IsNothingWhereNothingDiffers) {
  EXPECT_EQ(stored_difference_bound(0, {.squared_sum = 1, .largest = 1}), 0);
  EXPECT_EQ(stored_difference_bound(2, {}), 2);
}

// No more than every element by one spacing.
TEST(StoredDifference, IsAtMostAllSpacings) {
  EXPECT_LE(stored_difference_bound(1e-3, {.squared_sum = 4e-12, .largest = 1e-6}), 1e-3 + 2e-6);
  EXPECT_LE(stored_difference_bound(1e3, {.squared_sum = 4e-12, .largest = 1e-6}), 1e3 + 2e-6);
}

}  // namespace
}  // namespace ddpbench::report
