// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How far two computations of the same updates may be apart. docs/metrics.md, "Verification", has
// the derivation; the steps are named here.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// Chance that rounding alone leaves the bound in one sum of n terms.
constexpr double kFailureProbability = 1e-6;

// The smallest planted fault is a rank that misses the first of K updates. With momentum 0.9 that
// update is at least 1/(10 K) of the way. The cap stays 2.5 times below.
constexpr double kSmallestFaultMargin = 25;

// Higham and Mary 2019, Theorem 3.1: all n partial sums stay within lambda of their deviation with
// probability 1 - 2 n exp(-lambda^2 / 2).
double confidence_factor(double terms) {
  return std::sqrt(2 * std::log(2 * terms / kFailureProbability));
}

}  // namespace

double verification_tolerance(double unit_roundoff, double longest_sum, int steps) {
  ensure(unit_roundoff > 0 && unit_roundoff < 1, "unit roundoff {}", unit_roundoff);
  ensure(longest_sum >= 1 && std::isfinite(longest_sum), "a sum of {} terms", longest_sum);
  ensure(steps >= 1, "tolerance of {} steps", steps);
  // One sum against its recomputation: sqrt(2) for two independent roundings times the condition
  // factor sqrt(1/2) of sums whose terms cancel like independent ones.
  const double one_update = confidence_factor(longest_sum) * std::sqrt(longest_sum) * unit_roundoff;
  // K updates: errors add up at most, while the sum of updates may be as short as one of them.
  return std::min(steps * one_update, 1 / (kSmallestFaultMargin * steps));
}

}  // namespace ddpbench::report
