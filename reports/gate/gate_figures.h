// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures that the gate compares, and the scale on which it does. Private to reports/.
#pragma once

#include <optional>
#include <span>

#include "reports/data/report.h"
#include "reports/gate/gate_result.h"
#include "reports/metrics/statistics.h"

namespace ddpbench::report {

struct GateFigure {
  const char* name;  // key in JSON
  const char* heading;
  double GateOptions::*limit;
  Figure (*value)(const Run&);
  // Logarithmic figures are compared by ratios, the accuracy by differences.
  bool logarithmic = true;
  bool higher_is_better = false;
  // Whether its being too noisy makes the pair INCONCLUSIVE; the tail's alone does not.
  bool decisive = true;
  // Says nothing when the runs trained for different numbers of steps.
  bool needs_equal_steps = false;
  // Quantile of the steps that it is, where it is one.
  std::optional<double> step_quantile = {};
};

std::span<const GateFigure> gate_figures();
const GateFigure& gate_figure(std::string_view name);

// On this scale a difference of x is x worse, whatever the figure: log seconds, -log samples/s.
double badness(const GateFigure& figure, double value);
double value_of_badness(const GateFigure& figure, double badness);
// A difference of badness as a fraction that people read ("5 % slower"), and back.
double change_of(const GateFigure& figure, double difference);
double difference_of(const GateFigure& figure, double change);

// How much the figure varies within one run: variance, over ten consecutive parts of the run, of
// the figure of a part. Stands in for the variance between repetitions when there is only one, and
// is no good substitute: docs/gate.md. Without degrees of freedom for figures that are no quantile
// of the steps and below 20 steps.
VarianceEstimate variance_within(const GateFigure& figure, const Run& run);

}  // namespace ddpbench::report
