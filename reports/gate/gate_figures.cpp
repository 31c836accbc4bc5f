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
    {"median_step_s", "median step", &GateOptions::max_slowdown, median_step, 0.5},
    {"p95_step_s", "p95 step", &GateOptions::max_tail_slowdown, tail_step, 0.95,
     GateFigure::kIndecisive},
    {"samples_per_s", "throughput", &GateOptions::max_slowdown, throughput, 0.5,
     GateFigure::kHigherIsBetter},
    {"peak_bytes", "peak memory", &GateOptions::max_memory_growth, peak_memory},
    {"final_train_loss", "final loss", &GateOptions::max_loss_increase, least_loss, 0,
     GateFigure::kOfEqualSteps},
    {"final_test_accuracy", "accuracy", &GateOptions::max_accuracy_drop, final_accuracy, 0,
     GateFigure::kByDifference | GateFigure::kHigherIsBetter | GateFigure::kOfEqualSteps},
    // The median over the iterations of the slowest rank's time.
    {"median_time_s", "median time", &GateOptions::max_slowdown, median_step, 0.5,
     GateFigure::kOfCollectives},
    {"p95_time_s", "p95 time", &GateOptions::max_tail_slowdown, tail_step, 0.95,
     GateFigure::kIndecisive | GateFigure::kOfCollectives},
}};

double sign(const GateFigure& figure) { return figure.is(GateFigure::kHigherIsBetter) ? -1 : 1; }

}  // namespace

std::span<const GateFigure> gate_figures() { return kFigures; }

const GateFigure& gate_figure(std::string_view name) {
  const auto found = std::ranges::find(kFigures, name, &GateFigure::name);
  ensure(found != kFigures.end(), "the gate has no figure {}", name);
  return *found;
}

double badness(const GateFigure& figure, double value) {
  return sign(figure) * (figure.is(GateFigure::kByDifference) ? value : std::log(value));
}

double value_of_badness(const GateFigure& figure, double badness) {
  const double value = sign(figure) * badness;
  return figure.is(GateFigure::kByDifference) ? value : std::exp(value);
}

double change_of(const GateFigure& figure, double difference) {
  if (figure.is(GateFigure::kByDifference)) return difference;
  return sign(figure) * std::expm1(sign(figure) * difference);
}

double least_effect(const GateFigure& figure, const GateOptions& options) {
  const double limit = options.*figure.limit;
  return figure.is(GateFigure::kByDifference) ? limit : std::log1p(limit);
}

VarianceEstimate variance_within(const GateFigure& figure, const Run& run) {
  const std::span<const double> steps = run.step.samples_s;
  if (figure.step_quantile == 0 || steps.size() < kFewestSteps) return {};
  std::vector<double> parts;
  for (std::size_t part = 0; part < kPartsOfRun; ++part) {
    const std::size_t begin = steps.size() * part / kPartsOfRun;
    const std::size_t end = steps.size() * (part + 1) / kPartsOfRun;
    std::vector<double> values(steps.begin() + static_cast<std::ptrdiff_t>(begin),
                               steps.begin() + static_cast<std::ptrdiff_t>(end));
    std::ranges::sort(values);
    const double value = quantile(values, figure.step_quantile);
    if (!(value > 0)) return {};  // a step cannot take no time
    parts.push_back(badness(figure, value));
  }
  return pooled_variance(std::span(&parts, 1));
}

}  // namespace ddpbench::report
