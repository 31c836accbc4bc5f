// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// The largest k (from 1) for which the k-th smallest and the k-th largest of n values enclose the
// median with probability `confidence`; 0 if none does. A value lies below the median with
// probability 1/2, so the k-th smallest lies above it with P(Binomial(n, 1/2) < k).
std::size_t enclosing_rank(std::size_t n, double confidence) {
  const auto count = static_cast<double>(n);
  double below = 0;  // P(Binomial < k)
  std::size_t k = 0;
  for (;; ++k) {
    const auto chosen = static_cast<double>(k);
    below += std::exp(std::lgamma(count + 1) - std::lgamma(chosen + 1) -
                      std::lgamma(count - chosen + 1) - count * std::log(2));
    if (2 * below > 1 - confidence) return k;
  }
}

// The number of failed repetitions, and the step times of the others.
struct Outcome {
  std::vector<double> step_s;
  std::size_t failed = 0;
};

Outcome outcome(const Report& report, const std::vector<std::size_t>& runs) {
  Outcome result;
  for (const std::size_t index : runs) {
    const Run& run = report.runs[index];
    if (is_complete(run) && run.step.time_s) {
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

bool same_device_model(const Run& a, const Run& b) {
  return a.device_model.empty() || b.device_model.empty() || a.device_model == b.device_model;
}

}  // namespace

// Cells with the same key differ in the device model.
std::vector<std::vector<std::size_t>> repetition_groups(std::span<const RunRow> rows) {
  std::vector<std::vector<std::size_t>> groups;
  using Key = std::pair<const Report*, Settings>;
  std::map<Key, std::vector<std::size_t>> by_key;  // indices into `groups`
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::size_t>& places = by_key[{rows[i].report, cell_key(*rows[i].run)}];
    const auto place = std::ranges::find_if(places, [&](std::size_t p) {
      return same_device_model(*rows[groups[p].front()].run, *rows[i].run);
    });
    if (place != places.end()) {
      groups[*place].push_back(i);
    } else {
      places.push_back(groups.size());
      groups.push_back({i});
    }
  }
  return groups;
}

std::optional<MedianInterval> median_interval(std::vector<double> values, double confidence) {
  const std::size_t k = values.empty() ? 0 : enclosing_rank(values.size(), confidence);
  if (k == 0) return std::nullopt;
  std::ranges::sort(values);
  return MedianInterval{quantile(values, 0.5), values[k - 1], values[values.size() - k]};
}

void fill_cells(Report& report, std::optional<double> wanted_width) {
  report.cells.clear();
  std::vector<std::vector<std::size_t>> groups = repetition_groups(all_runs(report));
  if (groups.size() == report.runs.size() && !wanted_width) return;
  for (auto& runs : groups) {
    report.cells.push_back(summary(report, std::move(runs), wanted_width));
  }
}

}  // namespace ddpbench::report
