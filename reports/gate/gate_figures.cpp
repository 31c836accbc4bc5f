// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "reports/data/report.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kPartsOfRun = 10;   // into which variance_within() cuts a run
constexpr std::size_t kFewestSteps = 20;  // two for each part
// Ratios of smaller losses mean nothing.
constexpr double kLeastLoss = 1e-6;

Figure median_step(const Run& run) { return step_figure(run, &StepStatistics::median); }

Figure tail_step(const Run& run) { return step_figure(run, &StepStatistics::p95); }

Figure throughput(const Run& run) { return run.samples_per_s; }

// The gate takes no memory for one that was not recorded.
Figure peak_memory(const Run& run) {
  const Figure peak = largest_memory(run);
  return peak.value == 0 ? Figure::missing("no memory was recorded") : peak;
}

Figure least_loss(const Run& run) {
  const Figure loss = final_loss(run);
  return loss.value ? Figure::of(std::max(*loss.value, kLeastLoss)) : loss;
}

const std::array<GateFigure, 8> kFigures = {{
    {.name = "median_step_s",
     .heading = "median step",
     .limit = &GateOptions::max_slowdown,
     .value = median_step,
     .step_quantile = 0.5},
    {.name = "p95_step_s",
     .heading = "p95 step",
     .limit = &GateOptions::max_tail_slowdown,
     .value = tail_step,
     .decisive = false,
     .step_quantile = 0.95},
    {.name = "samples_per_s",
     .heading = "throughput",
     .limit = &GateOptions::max_slowdown,
     .value = throughput,
     .higher_is_better = true,
     .step_quantile = 0.5},
    {.name = "peak_bytes",
     .heading = "peak memory",
     .limit = &GateOptions::max_memory_growth,
     .value = peak_memory},
    {.name = "final_train_loss",
     .heading = "final loss",
     .limit = &GateOptions::max_loss_increase,
     .value = least_loss,
     .needs_equal_steps = true},
    {.name = "final_test_accuracy",
     .heading = "accuracy",
     .limit = &GateOptions::max_accuracy_drop,
     .value = final_accuracy,
     .logarithmic = false,
     .higher_is_better = true,
     .needs_equal_steps = true},
    // The median over the iterations of the slowest rank's time.
    {.name = "median_time_s",
     .heading = "median time",
     .limit = &GateOptions::max_slowdown,
     .value = median_step,
     .step_quantile = 0.5,
     .of_collectives = true},
    {.name = "p95_time_s",
     .heading = "p95 time",
     .limit = &GateOptions::max_tail_slowdown,
     .value = tail_step,
     .decisive = false,
     .step_quantile = 0.95,
     .of_collectives = true},
}};

double sign(const GateFigure& figure) { return figure.higher_is_better ? -1 : 1; }

}  // namespace

std::span<const GateFigure> gate_figures() { return kFigures; }

const GateFigure& gate_figure(std::string_view name) {
  const auto found = std::ranges::find(kFigures, name, &GateFigure::name);
  ensure(found != kFigures.end(), "the gate has no figure {}", name);
  return *found;
}

double badness(const GateFigure& figure, double value) {
  return sign(figure) * (figure.logarithmic ? std::log(value) : value);
}

double value_of_badness(const GateFigure& figure, double badness) {
  const double value = sign(figure) * badness;
  return figure.logarithmic ? std::exp(value) : value;
}

double change_of(const GateFigure& figure, double difference) {
  return figure.logarithmic ? sign(figure) * std::expm1(sign(figure) * difference) : difference;
}

double least_effect(const GateFigure& figure, const GateOptions& options) {
  const double limit = options.*figure.limit;
  return figure.logarithmic ? std::log1p(limit) : limit;
}

VarianceEstimate variance_within(const GateFigure& figure, const Run& run) {
  const std::span<const double> steps = run.step.samples_s;
  if (!figure.step_quantile || steps.size() < kFewestSteps) return {};
  std::vector<double> parts;
  for (std::size_t part = 0; part < kPartsOfRun; ++part) {
    const std::size_t begin = steps.size() * part / kPartsOfRun;
    const std::size_t end = steps.size() * (part + 1) / kPartsOfRun;
    std::vector<double> values(steps.begin() + static_cast<std::ptrdiff_t>(begin),
                               steps.begin() + static_cast<std::ptrdiff_t>(end));
    std::ranges::sort(values);
    const double value = quantile(values, *figure.step_quantile);
    if (!(value > 0)) return {};  // a step cannot take no time
    parts.push_back(badness(figure, value));
  }
  return pooled_variance(std::span(&parts, 1));
}

}  // namespace ddpbench::report
