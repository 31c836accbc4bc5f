// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of the distribution of step times and of their course along the run. Samples may be
// millions: each one is looked at a few times and none is dropped.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostStepGroups = 60;        // for which a picture has room
constexpr std::size_t kMostBins = 12 * kStepBins;  // of all groups: each is a shape
constexpr double kMostOverP95 = 2;                 // see StepsChart::shown_s
constexpr std::size_t kNamedOutliers = 4;          // that the note names

std::string unfit_steps(const Run& run) {
  if (run.step.samples_s.empty()) return "no step was timed";
  return std::ranges::all_of(run.step.samples_s, plausible) ? ""
                                                            : "its step times are not plausible";
}

// Moves the values that quantile() reads for `qs` (ascending) to where sorting would put them, for
// a fraction of the work of sorting.
void order_for(std::vector<double>& values, std::initializer_list<double> qs) {
  auto first = values.begin();  // all before it is in place
  for (const double q : qs) {
    const auto index = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
    for (auto nth = values.begin() + index; nth <= values.begin() + index + 1; ++nth) {
      if (nth < first || nth == values.end()) continue;
      std::nth_element(first, nth, values.end());
      first = nth + 1;
    }
  }
}

// The statistics of summarize() (metrics.h) and the quartiles. REQUIRES: not empty.
void fill_statistics(std::vector<double>& samples, StepGroup& group) {
  order_for(samples, {0.05, 0.25, 0.5, 0.75, 0.95, 0.99});
  StepStatistics& time = group.time_s;
  const auto [least, most] = std::ranges::minmax(samples);
  time.min = least;
  time.max = most;
  time.p5 = quantile(samples, 0.05);
  group.q1_s = quantile(samples, 0.25);
  time.median = quantile(samples, 0.5);
  group.q3_s = quantile(samples, 0.75);
  time.p95 = quantile(samples, 0.95);
  time.p99 = quantile(samples, 0.99);
  if (samples.size() > 1) time.iqr = Figure::of(group.q3_s - group.q1_s);
}

std::size_t longest(const RunGroup& group) {
  std::size_t most = 0;
  for (const Run* run : group.runs) most = std::max(most, run->step.samples_s.size());
  return most;
}

StepBin bin_of(const RunGroup& group, std::size_t first, std::size_t last) {
  std::vector<double> values;
  for (const Run* run : group.runs) {
    const std::vector<double>& samples = run->step.samples_s;
    const auto at = [&](std::size_t i) {
      return samples.begin() + static_cast<std::ptrdiff_t>(std::min(i, samples.size()));
    };
    values.insert(values.end(), at(first), at(last + 1));
  }
  const auto [least, most] = std::ranges::minmax(values);
  order_for(values, {0.5});
  return {static_cast<double>(first), static_cast<double>(last), least, quantile(values, 0.5),
          most};
}

std::vector<StepBin> bins_of(const RunGroup& group, std::size_t max_bins) {
  const std::size_t steps = longest(group);
  const std::size_t count = std::min(steps, std::max<std::size_t>(max_bins, 1));
  std::vector<StepBin> bins;
  for (std::size_t i = 0; i < count; ++i) {
    // The bins' numbers of steps differ by one at most.
    const std::size_t first = i * steps / count;
    bins.push_back(bin_of(group, first, (i + 1) * steps / count - 1));
  }
  return bins;
}

StepGroup step_group(const RunGroup& group, std::size_t max_bins) {
  std::vector<double> samples;
  for (const Run* run : group.runs) {
    samples.insert(samples.end(), run->step.samples_s.begin(), run->step.samples_s.end());
  }
  StepGroup result;
  result.series = group.series;
  result.devices = group.devices;
  result.name = group.name;
  result.oversubscribed = group.oversubscribed;
  result.count = static_cast<std::int64_t>(samples.size());
  fill_statistics(samples, result);
  result.bins = bins_of(group, max_bins);
  return result;
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.4g} ms", 1e3 * seconds) : fmt::format("{:.4g} s", seconds);
}

// Where a scale for this group alone would end.
double end_of(const StepStatistics& time) {
  return time.p95 > 0 ? std::min(time.max, kMostOverP95 * time.p95) : time.max;
}

void note_outliers(StepsChart& chart) {
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const StepGroup& group : chart.groups) {
    if (group.time_s.max <= chart.shown_s || ++count > kNamedOutliers) continue;
    named.push_back(fmt::format("{} up to {}", group.name, seconds_text(group.time_s.max)));
  }
  if (count == 0) return;
  if (count > named.size()) named.push_back(fmt::format("{} more runs", count - named.size()));
  chart.caption.notes.push_back(
      fmt::format("the scale holds {} times the 95th percentile of each run and ends at {}; an "
                  "arrow at its end stands for slower steps: {}",
                  kMostOverP95, seconds_text(chart.shown_s), fmt::join(named, ", ")));
}

}  // namespace

StepsChart steps_chart(std::span<const Report> reports, std::size_t max_bins, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Step times", unfit_steps);
  limit_groups(runs, kMostStepGroups, room);
  StepsChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  max_bins = std::min(max_bins, std::max<std::size_t>(kMostBins / runs.groups.size(), 12));
  bool repeated = false;
  for (const RunGroup& group : runs.groups) {
    chart.groups.push_back(step_group(group, max_bins));
    chart.shown_s = std::max(chart.shown_s, end_of(chart.groups.back().time_s));
    repeated = repeated || group.runs.size() > 1;
  }
  chart.caption.notes.emplace_back(
      "box: quartiles and median; whiskers: 5th and 95th percentile; crosses: minimum and maximum");
  chart.caption.notes.push_back(fmt::format(
      "along the run: median, minimum and maximum of neighbouring steps{}; none is left out",
      repeated ? " of all repetitions" : ""));
  note_outliers(chart);
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
