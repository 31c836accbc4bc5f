// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/reports/gate_support.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "tests/reports/sample_report.h"

namespace ddpbench::report::test {

Run gate_run(double median_s, int repetition) {
  Run run = sample_run("ddp", 2, 128 / median_s);
  run.repetition = repetition;
  run.step.time_s->median = median_s;
  run.step.time_s->p95 = 1.1 * median_s;
  run.step.samples_s.assign(3, median_s);
  return run;
}

Report gate_report(const std::vector<double>& medians_s) {
  Report report;
  report.generator = {"0.1.0", std::nullopt, std::nullopt, "built outside a git checkout"};
  report.started_at = "2026-01-31T12:00:00Z";
  report.finished_at = "2026-01-31T12:01:00Z";
  report.environment.hosts = {"node"};
  report.config_json = "{}";
  for (const double median_s : medians_s) {
    report.runs.push_back(gate_run(median_s, static_cast<int>(report.runs.size())));
  }
  return report;
}

std::vector<double> steady(double factor) {
  return {0.0200 * factor, 0.0202 * factor, 0.0198 * factor, 0.02025 * factor, 0.01975 * factor};
}

GateResult check_one(const Report& candidate, const Report& base, const GateOptions& options) {
  return check_reports(std::span(&candidate, 1), std::span(&base, 1), options);
}

const FigureVerdict& figure_of(const GateResult& result, std::string_view name) {
  for (const FigureVerdict& figure : result.pairs.at(0).figures) {
    if (figure.name == name) return figure;
  }
  throw std::runtime_error("no figure " + std::string(name));
}

}  // namespace ddpbench::report::test
