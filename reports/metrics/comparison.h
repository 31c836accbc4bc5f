// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one comparison of repetitions, by which ranking, gate, history, --until-ci and tune tell a
// difference from noise: Student's t after far-off repetitions were drawn in. docs/gate.md says
// why, and how often it errs.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace ddpbench::report {

inline constexpr double kConfidence = 0.95;  // of all intervals but the gate's

// A variance estimated with `dof` degrees of freedom.
struct VarianceEstimate {
  double variance = 0;
  int dof = 0;
};
// The sum of squares about each group's own mean / (n - number of groups). Groups of one value add
// nothing; dof is 0 when no group has two.
VarianceEstimate pooled_variance(std::span<const std::vector<double>> groups);

// Moves values further than three robust standard deviations from the median of their side to that
// distance, and returns how many. So a repetition that was disturbed counts as far off, but not by
// how far. The deviation is 1.4826 x the median of all distances from their side's median
// (Rousseeuw and Croux, Alternatives to the median absolute deviation, J. Am. Stat. Assoc. 88,
// 1993), times sqrt(n / (n - sides)) for the medians. All sides are left as they are if one has
// fewer than four values, or if more than a quarter of one is far off: that is noise.
int draw_in_outliers(std::span<std::vector<double>> sides);

// The difference of two means, or one mean.
struct Comparison {
  double base = 0, other = 0;  // means, after draw_in_outliers
  double difference = 0;       // other - base
  double deviation = 0;        // standard deviation of a repetition
  double error = 0;            // standard error of the difference
  int dof = 0;                 // 0: nothing varies (error 0), or the noise is not known
  bool noise_known = false;
  int outliers = 0;  // values that draw_in_outliers moved

  // One-sided p values: how probable a difference at least so far above or below 0 is by chance.
  double p_above() const;
  double p_below() const;
  // Half the width of the interval that the true difference leaves with probability `tail` on each
  // side; 0 where nothing varies. `tail` in (0, 0.5].
  double margin(double tail) const;
};
// `sides`: the base and the other, or the other alone, whose mean is then compared with 0. None is
// empty. `within`: the variance to take where no side has two values.
Comparison compare(std::vector<std::vector<double>> sides, VarianceEstimate within = {});

// The comparison of the logarithms of positive values: their geometric mean / that of `base`, or
// the geometric mean itself without a base, with its kConfidence interval.
struct RatioInterval {
  double ratio = 1;
  std::optional<double> low, high;  // not set: the noise is unknown, with one value a side
};
RatioInterval compare_ratios(const std::vector<double>& values,
                             const std::vector<double>& base = {});

// Holm's adjusted p values, in the order of `p`. Rejecting those <= alpha keeps the probability of
// any false rejection at alpha, however the tests depend on each other (Holm, A simple sequentially
// rejective multiple test procedure, Scand. J. Statist. 6, 1979).
std::vector<double> holm_adjusted(std::span<const double> p);

// The repetitions of each side after which a true difference of 0 passes the gate and one of
// 2 `effect` is found, each with a probability of 90 %. `deviation`: the standard deviation of a
// repetition, on the scale of `effect` > 0. Nothing above `limit`.
std::optional<int> repetitions_to_decide(double deviation, double effect, double alpha, int limit);

}  // namespace ddpbench::report
