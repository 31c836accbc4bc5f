// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of throughput and efficiency over the number of devices.
#include <fmt/format.h>

#include <algorithm>

#include "reports/charts/chart_runs.h"
#include "reports/data/settings.h"

namespace ddpbench::report {
namespace {

std::string unfit_scaling(const Run& run) {
  if (!run.samples_per_s.value) {
    return run.samples_per_s.reason.empty() ? "no throughput was measured"
                                            : run.samples_per_s.reason;
  }
  return plausible(*run.samples_per_s.value) ? "" : "its throughput is not plausible";
}

ScalingPoint point_of(const RunGroup& group) {
  std::vector<double> rates, efficiencies;
  ScalingPoint point;
  for (const Run* run : group.runs) {
    rates.push_back(*run->samples_per_s.value);
    if (run->scaling && plausible(run->scaling->efficiency)) {
      efficiencies.push_back(run->scaling->efficiency);
    } else if (point.efficiency_reason.empty()) {
      point.efficiency_reason = run->scaling_reason;
    }
  }
  point.series = group.series;
  point.devices = group.devices;
  point.samples_per_s = spread(rates);
  point.samples_per_s.median = median_rate(rates);
  point.oversubscribed = group.oversubscribed;
  if (!efficiencies.empty() && !group.oversubscribed) {
    point.efficiency = spread(efficiencies);
    point.efficiency->median = median_rate(efficiencies);
    point.efficiency_reason.clear();
  } else if (point.efficiency_reason.empty()) {
    point.efficiency_reason = "no efficiency was recorded";
  }
  return point;
}

void limit_series(ChartRuns& runs, ChartRoom room) {
  const auto beyond = std::ranges::find_if(
      runs.groups, [](const RunGroup& group) { return group.series >= kMostSeries; });
  limit_groups(runs, static_cast<std::size_t>(beyond - runs.groups.begin()), room);
}

void add_ideals(const ChartRuns& runs, ScalingChart& chart) {
  for (const ScalingPoint& point : chart.points) {
    const RunGroup& group = runs.groups[static_cast<std::size_t>(&point - chart.points.data())];
    const bool usable = group.runs.front()->strategy == kBaseline && point.devices == 1 &&
                        !point.oversubscribed && group.runs.front()->injected.empty();
    if (usable) {
      chart.ideals.push_back(
          {"ideal: " + runs.series[point.series].name, point.samples_per_s.median});
    }
  }
  if (chart.ideals.size() == 1) chart.ideals.front().name = "ideal";
}

// Notes why points have no efficiency, each reason once. Oversubscribed points have a mark for it.
void note_missing_efficiency(ScalingChart& chart) {
  std::vector<std::string> reasons;
  for (const ScalingPoint& point : chart.points) {
    if (point.efficiency || point.oversubscribed) continue;
    if (std::ranges::find(reasons, point.efficiency_reason) == reasons.end()) {
      reasons.push_back(point.efficiency_reason);
    }
  }
  if (reasons.size() > 2) reasons.resize(2);
  if (!reasons.empty()) {
    chart.caption.notes.push_back(
        fmt::format("without efficiency where: {}", fmt::join(reasons, "; ")));
  }
}

void note_spread(ScalingChart& chart) {
  int least = chart.points.front().samples_per_s.count, most = 0;
  for (const ScalingPoint& point : chart.points) {
    least = std::min(least, point.samples_per_s.count);
    most = std::max(most, point.samples_per_s.count);
  }
  chart.caption.notes.push_back(repetitions_note(least, most));
}

}  // namespace

ScalingChart scaling_chart(std::span<const Report> reports, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Scaling", unfit_scaling);
  limit_series(runs, room);
  ScalingChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  for (const RunGroup& group : runs.groups) chart.points.push_back(point_of(group));
  add_ideals(runs, chart);
  note_spread(chart);
  note_missing_efficiency(chart);
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
