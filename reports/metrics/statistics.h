// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of one mean against another, for the gate. docs/gate.md says which and why.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ddpbench::report {

// P(T <= t) of Student's t with `dof` >= 1 degrees of freedom, by the finite series for whole
// degrees of freedom: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
double student_t_cdf(double t, int dof);
// The t with student_t_cdf(t, dof) == p, by bisection. p in (0, 1).
double student_t_quantile(double p, int dof);
// The same for the normal distribution.
double normal_quantile(double p);

// Derivatives of log gamma: recurrence up to 10, then the asymptotic series (Abramowitz and Stegun
// 6.3.18 and 6.4.12). x > 0.
double digamma(double x);
double trigamma(double x);
// The x > 0 with trigamma(x) == y, y > 0, by bisection.
double inverse_trigamma(double y);

// Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979:
// adjusted p values in the order of `p`; rejecting those <= alpha keeps the probability of any
// false rejection at alpha, however the tests depend on each other.
std::vector<double> holm_adjusted(std::span<const double> p);

// A variance estimated with `dof` degrees of freedom.
struct VarianceEstimate {
  double variance = 0;
  int dof = 0;
};
// Sum of squares about each group's own mean / (n - number of groups). Groups of one value add
// nothing; dof 0 when none has two.
VarianceEstimate pooled_variance(std::span<const std::vector<double>> groups);

// Draws values that lie more than three robust standard deviations from their side's median in to
// that distance, and returns how many: a repetition that something else on the machine disturbed
// counts as far off, not as how far. The deviation is 1.4826 x the median of all distances from
// their side's median (Rousseeuw and Croux, Alternatives to the median absolute deviation, J. Am.
// Stat. Assoc. 88, 1993), times sqrt(n / (n - 2)) for the two medians. Sides of fewer than four
// values are left as they are, and both are when more than a quarter of one is far off: that is
// noise.
int draw_in_outliers(std::vector<double>& a, std::vector<double>& b);

// Each variance drawn towards what all have in common, as far as they have something in common:
// empirical Bayes, Smyth, Linear models and empirical Bayes methods for assessing differential
// expression in microarray experiments, Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 3 and
// 6.2. Other than there, what is borrowed never counts for more than the estimate's own degrees of
// freedom, and fewer than three estimates are left as they are: too few to say how alike they are.
// Estimates without degrees of freedom or of variance 0 take no part.
std::vector<VarianceEstimate> moderated_variances(std::vector<VarianceEstimate> own);

// Repetitions a side after which a difference of nothing passes and one of 2 `effect` is found,
// each with a probability of 90 %, when a repetition's standard deviation is `deviation` (same
// scale as `effect` > 0). Empty above `limit`.
std::optional<int> repetitions_to_decide(double deviation, double effect, double alpha, int limit);

}  // namespace ddpbench::report
