// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The statistics of one check: all figures of all pairs at once, because the correction counts them
// together and variances lend each other degrees of freedom. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reports/gate/gate_figures.h"
#include "reports/metrics/statistics.h"

namespace ddpbench::report {

// One figure of one pair, as badness (gate_figures.h): a value a repetition, none of them empty.
struct FigureSamples {
  const GateFigure* figure = nullptr;
  std::size_t pair = 0;
  std::vector<double> base, fresh;
  VarianceEstimate within;  // stands in where each side has one repetition
};

struct FigureTest {
  double difference = 0;     // of the means; positive is worse
  double deviation = 0;      // of a repetition
  double error = 0;          // standard error of the difference
  int dof = 0;               // 0: nothing varies (error 0), or nothing is known of how it varies
  int outliers = 0;          // repetitions that draw_in_outliers moved
  bool from_within = false;  // deviation and dof come from within single runs
  bool known = true;         // false: one repetition a side of a figure that varies, too few steps
  double p_worse = 1, p_better = 1;  // one-sided, adjusted
};

struct FigureTests {
  std::vector<FigureTest> results;  // in the order of the samples
  std::size_t family = 0;           // hypotheses that the correction counts, for each direction
};

// Outliers drawn in, then Student's t with pooled variances (over both sides; drawn together over
// pairs by moderated_variances), Holm over every figure that varies. The throughput counts with the
// median step where it only restates it.
FigureTests test_figures(std::span<const FigureSamples> samples);

// By the rule of docs/gate.md; `effect` is the minimum effect as a difference of badness.
GateVerdict decide(const FigureTest& test, double effect, double alpha);

}  // namespace ddpbench::report
