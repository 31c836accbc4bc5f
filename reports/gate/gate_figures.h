// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures that the gate compares, and the scale of the comparison. Private to reports/.
#pragma once

#include <span>

#include "reports/data/report.h"
#include "reports/gate/gate.h"
#include "reports/metrics/comparison.h"

namespace ddpbench::report {

struct GateFigure {
  enum Trait : unsigned {
    kByDifference = 1U << 0U,  // compared by differences; the others by ratios
    kHigherIsBetter = 1U << 1U,
    kIndecisive = 1U << 2U,    // when only it is too noisy, the pair is not INCONCLUSIVE
    kOfEqualSteps = 1U << 3U,  // not compared when steps, epochs or global batch differ
    kOfCollectives = 1U << 4U  // collectives alone have it; the others belong to training runs
  };
  const char* name;  // key in JSON
  const char* heading;
  double GateOptions::*limit;
  Figure (*value)(const Run&);
  double step_quantile = 0;  // of the step times, that the figure is or follows from; 0: of none
  unsigned traits = 0;
  bool is(Trait trait) const { return (traits & trait) != 0; }
};

std::span<const GateFigure> gate_figures();
const GateFigure& gate_figure(std::string_view name);

// The value on a scale where larger is worse for every figure: log seconds, -log samples/s.
double badness(const GateFigure& figure, double value);
double value_of_badness(const GateFigure& figure, double badness);
// From a difference of badness to the share of the baseline that people read: 0.05 is a step that
// takes 5 % longer, or a throughput that fell by 5 %. Negative: better.
double change_of(const GateFigure& figure, double difference);
// The minimum effect as a difference of badness. A throughput has the one of the step from which it
// follows: a step that takes 5 % longer is a throughput that fell by 4.8 %.
double least_effect(const GateFigure& figure, const GateOptions& options);

// The variance of the figure within one run: between its values for ten consecutive parts of the
// run. It replaces the variance between repetitions when each side has only one, and is a poor
// substitute (docs/gate.md). It has no degrees of freedom for figures without a step_quantile and
// for runs of fewer than 20 steps.
VarianceEstimate variance_within(const GateFigure& figure, const Run& run);

}  // namespace ddpbench::report
