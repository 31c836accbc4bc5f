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

CollectiveRow collective_row(double median_s, std::uint64_t bytes) {
  CollectiveRow row;
  row.operation = "all_reduce";
  row.backend = "shm";
  row.mode = "process";
  row.ranks = 2;
  row.bytes = bytes;
  row.count = bytes / 4;
  row.data_type = "fp32";
  row.reduction = "sum";
  row.in_place = true;
  row.iterations = 50;
  row.time_s.emplace();
  row.time_s->min = row.time_s->p5 = row.time_s->median = median_s;
  row.time_s->p95 = row.time_s->p99 = row.time_s->max = 1.1 * median_s;
  row.algbw_gb_per_s = row.busbw_gb_per_s = Figure::of(static_cast<double>(bytes) / median_s / 1e9);
  row.bound_busbw_gb_per_s = Figure::of(8);
  row.share_of_bound = Figure::of(*row.busbw_gb_per_s.value / 8);
  row.bound = "memory_copy";
  row.wrong = 0;
  return row;
}

Report collective_report(double median_s, const std::vector<std::uint64_t>& sizes) {
  Report report = gate_report({});
  report.argv = {"ddpbench", "comm"};
  for (const std::uint64_t bytes : sizes) {
    report.collectives.push_back(collective_row(median_s, bytes));
  }
  return report;
}

std::vector<Report> collective_reports(const std::vector<double>& medians_s) {
  std::vector<Report> reports;
  for (const double median_s : medians_s) reports.push_back(collective_report(median_s));
  return reports;
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
