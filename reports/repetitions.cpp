// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/metrics.h"

namespace ddpbench::report {
namespace {

// The largest k (from 1) for which the k-th smallest and k-th largest of n values enclose the
// median with kConfidence; 0: none does. A value lies below the median with probability 1/2, so the
// k-th smallest lies above it with P(Binomial(n, 1/2) < k).
std::size_t enclosing_rank(std::size_t n) {
  const auto count = static_cast<double>(n);
  double below = 0;  // P(Binomial < k)
  std::size_t k = 0;
  for (;; ++k) {
    const auto chosen = static_cast<double>(k);
    below += std::exp(std::lgamma(count + 1) - std::lgamma(chosen + 1) -
                      std::lgamma(count - chosen + 1) - count * std::log(2));
    if (2 * below > 1 - kConfidence) return k;
  }
}

// How many repetitions failed, and the step times of the others.
struct Outcome {
  std::vector<double> step_s;
  std::size_t failed = 0;
};

Outcome outcome(const Report& report, const std::vector<std::size_t>& runs) {
  Outcome result;
  for (const std::size_t index : runs) {
    const Run& run = report.runs[index];
    if (run.status == Status::ok && run.step.time_s) {
      result.step_s.push_back(run.step.time_s->median);
    } else {
      ++result.failed;
    }
  }
  return result;
}

CellSummary summary(const Report& report, std::vector<std::size_t> runs,
                    std::optional<double> wanted_width) {
  CellSummary cell;
  const Outcome found = outcome(report, runs);
  cell.runs = std::move(runs);
  const std::size_t n = found.step_s.size();
  cell.step_median_s =
      n > 0 ? Figure::of(median(found.step_s)) : Figure::missing("no repetition was timed");
  if (const auto interval = median_interval(found.step_s)) {
    cell.ci_low_s = Figure::of(interval->low);
    cell.ci_high_s = Figure::of(interval->high);
    cell.ci_width_ratio = Figure::of(interval->relative_width());
  } else {
    cell.ci_low_s = cell.ci_high_s = cell.ci_width_ratio = Figure::missing(
        fmt::format("a 95 % interval of the median needs {} timed repetitions, there {} {}",
                    kFewestForInterval, n == 1 ? "is" : "are", n));
  }
  if (!wanted_width) return cell;
  cell.wanted_width_ratio = *wanted_width;
  const auto& width = cell.ci_width_ratio.value;
  cell.noisy = !width || *width > *wanted_width;
  return cell;
}

}  // namespace

std::optional<MedianInterval> median_interval(std::vector<double> values) {
  if (values.size() < static_cast<std::size_t>(kFewestForInterval)) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t k = enclosing_rank(values.size());
  return MedianInterval{quantile(values, 0.5), values[k - 1], values[values.size() - k]};
}

bool same_cell(const Run& a, const Run& b) {
  return a.strategy == b.strategy && a.world_size == b.world_size && a.servers == b.servers &&
         a.device == b.device && a.threads_per_device == b.threads_per_device &&
         a.precision == b.precision && a.model == b.model && a.optimizer == b.optimizer &&
         a.per_device_batch_size == b.per_device_batch_size &&
         a.global_batch_size == b.global_batch_size && a.scaling_mode == b.scaling_mode &&
         a.strategy_options == b.strategy_options && a.dataset_name == b.dataset_name &&
         a.injected == b.injected;
}

void fill_cells(Report& report, std::optional<double> wanted_width) {
  report.cells.clear();
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const auto group = std::ranges::find_if(groups, [&](const auto& runs) {
      return same_cell(report.runs[runs.front()], report.runs[i]);
    });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  if (groups.size() == report.runs.size() && !wanted_width) return;
  for (auto& runs : groups) {
    report.cells.push_back(summary(report, std::move(runs), wanted_width));
  }
}

}  // namespace ddpbench::report
