// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics for the gate's tests of one mean against another. docs/gate.md says which and why.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ddpbench::report {

// P(T <= t) of Student's t with `dof` >= 1 degrees of freedom, by the finite series for integer
// dof: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
double student_t_cdf(double t, int dof);
// The t with student_t_cdf(t, dof) == p, by bisection. p in (0, 1).
double student_t_quantile(double p, int dof);
// The same for the normal distribution.
double normal_quantile(double p);

// First and second derivative of log gamma, for x > 0: recurrence up to 10, then the asymptotic
// series (Abramowitz and Stegun 6.3.18 and 6.4.12).
double digamma(double x);
double trigamma(double x);
// The x > 0 with trigamma(x) == y, y > 0, by bisection.
double inverse_trigamma(double y);

// Holm's adjusted p values, in the order of `p`. Rejecting those <= alpha keeps the probability of
// any false rejection at alpha, however the tests depend on each other (Holm, A simple sequentially
// rejective multiple test procedure, Scand. J. Statist. 6, 1979).
std::vector<double> holm_adjusted(std::span<const double> p);

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
// 1993), times sqrt(n / (n - 2)) for the two medians. Both sides are left as they are if one has
// fewer than four values, or if more than a quarter of one is far off: that is noise.
int draw_in_outliers(std::vector<double>& a, std::vector<double>& b);

// Draws each variance towards the common one, as far as they agree: empirical Bayes (Smyth, Linear
// models and empirical Bayes methods for assessing differential expression in microarray
// experiments, Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 3 and 6.2). Unlike there, the
// borrowed degrees of freedom never exceed the estimate's own, and fewer than three estimates are
// left as they are: they do not show how alike they are. Estimates without degrees of freedom or
// with variance 0 take no part.
std::vector<VarianceEstimate> moderated_variances(std::vector<VarianceEstimate> own);

// The repetitions of each side after which a true difference of 0 passes and one of 2 `effect` is
// found, each with a probability of 90 %. `deviation`: the standard deviation of a repetition, on
// the scale of `effect` > 0. Nothing above `limit`.
std::optional<int> repetitions_to_decide(double deviation, double effect, double alpha, int limit);

}  // namespace ddpbench::report
