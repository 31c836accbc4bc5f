// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The statistics of one check. All figures of all pairs are tested together: the correction counts
// all of them, and variances lend each other degrees of freedom. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reports/gate/gate_figures.h"
#include "reports/metrics/statistics.h"

namespace ddpbench::report {

// The badness (gate_figures.h) of one figure in each repetition of a pair. Neither side is empty.
struct FigureSamples {
  const GateFigure* figure = nullptr;
  std::size_t pair = 0;
  std::vector<double> base, candidate;
  VarianceEstimate within;  // used where each side has one repetition
};

struct FigureTest {
  double base = 0, candidate = 0;    // means, after draw_in_outliers
  double difference = 0;             // of these means: candidate - base; positive is worse
  double deviation = 0;              // standard deviation of a repetition
  double error = 0;                  // standard error of the difference
  int dof = 0;                       // 0: nothing varies (error 0), or the variation is not known
  int outliers = 0;                  // repetitions that draw_in_outliers moved
  bool from_within = false;          // deviation and dof come from within single runs
  bool known = true;                 // false: one repetition a side and too few steps for `within`
  double p_worse = 1, p_better = 1;  // one-sided, Holm-adjusted
};

struct FigureTests {
  std::vector<FigureTest> results;  // in the order of the samples
  std::size_t family = 0;           // hypotheses that the correction counts, for each direction
};

// Draws outliers in, then takes Student's t with variances pooled over both sides and moderated
// over all pairs (moderated_variances). Holm's correction counts every figure that varies, but the
// throughput not where it only restates the median step.
FigureTests test_figures(std::span<const FigureSamples> samples);

// The verdict by the rule of docs/gate.md. `effect`: the minimum effect as a difference of badness.
GateVerdict decide(const FigureTest& test, double effect, double alpha);

}  // namespace ddpbench::report
