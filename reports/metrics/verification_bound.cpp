// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// docs/verification.md has the derivations; their steps are named here.
#include "reports/metrics/verification_bound.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ddpbench::report {
namespace {

// The probability that rounding alone exceeds the bound in one sum of n terms.
constexpr double kFailureProbability = 1e-6;

// A rank that misses an update is off by the whole update. The cap stays 50 times below that.
constexpr double kLargestTolerance = 1.0 / 50;

// The probability that more elements of a tensor are stored differently than allowed, and how much
// denser than evenly the exact values may lie around the middle between two numbers.
constexpr double kStoredFailureProbability = 1e-12;
constexpr double kDensity = 4;

// Higham and Mary 2019, Theorem 3.1: all n partial sums stay within lambda of their deviation with
// probability 1 - 2 n exp(-lambda^2 / 2).
double confidence_factor(double terms) {
  return std::sqrt(2 * std::log(2 * terms / kFailureProbability));
}

// Chernoff: a sum of independent values in [0, 1] with mean `mean` is below the result except with
// the probability above: exp(-(t ln(t / mean) - t + mean)). Bernstein's bound is above the result.
double most_of_sum(double mean) {
  const double limit = -std::log(kStoredFailureProbability);
  double low = mean;
  double high = mean + limit / 3 + std::sqrt(limit * limit / 9 + 2 * limit * mean);
  for (int i = 0; i < 60; ++i) {
    const double t = (low + high) / 2;
    (t * std::log(t / mean) - t + mean < limit ? low : high) = t;
  }
  return high;
}

}  // namespace

double verification_tolerance(double unit_roundoff, double terms) {
  ensure(unit_roundoff > 0 && unit_roundoff < 1, "unit roundoff {}", unit_roundoff);
  ensure(terms >= 1 && std::isfinite(terms), "a sum of {} terms", terms);
  // sqrt(2) for two independent roundings, times the condition factor sqrt(1/2) of sums whose terms
  // cancel like independent ones.
  return std::min(confidence_factor(terms) * std::sqrt(terms) * unit_roundoff, kLargestTolerance);
}

double stored_difference_bound(double exact, const StoredSpacing& spacing) {
  if (!(exact > 0) || !(spacing.largest > 0)) return exact;
  // An element is stored differently with a probability of at most its difference / spacing. With
  // Cauchy-Schwarz, the squared spacings of all such elements have at most this mean, in units of
  // the largest.
  const double all = std::sqrt(spacing.squared_sum);
  const double unit = spacing.largest * spacing.largest;
  const double mean = kDensity * all / spacing.largest * (exact / spacing.largest);
  const double most =
      mean < spacing.squared_sum / unit ? most_of_sum(mean) * unit : spacing.squared_sum;
  return exact + std::min(all, std::sqrt(most));
}

}  // namespace ddpbench::report
