// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of how the step time splits into phases.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostBreakdownBars = 40;
constexpr double kVisibleExcess = 0.02;  // share of the step above which a note says so

struct Part {
  const char* name;
  const char* phase;  // key of Run::phases
};
constexpr Part kParts[] = {{"input wait", "data_wait_s"},
                           {"forward", "forward_s"},
                           {"backward", "backward_s"},
                           {"exposed communication", "comm_exposed_s"},
                           {"update", "optimizer_s"}};

std::optional<double> phase(const Run& run, const char* key) {
  const auto found = run.phases.find(key);
  if (found == run.phases.end() || !found->second.value) return std::nullopt;
  return plausible(*found->second.value) ? found->second.value : std::nullopt;
}

std::string unfit_breakdown(const Run& run) {
  if (!run.step.time_s) return "no step was timed";
  if (!plausible(run.step.time_s->median)) return "its step time is not plausible";
  const auto forward = run.phases.find("forward_s");
  if (forward == run.phases.end()) return "phases were not observed";
  if (phase(run, "forward_s") && phase(run, "backward_s")) return {};
  return forward->second.reason.empty() ? "phases were not observed" : forward->second.reason;
}

StackedBar bar_of(const RunGroup& group) {
  StackedBar bar{group.series, group.devices, group.name, {}, {}, 0, group.oversubscribed};
  std::vector<double> steps;
  for (const Run* run : group.runs) steps.push_back(run->step.time_s->median);
  bar.whole = median(steps);
  for (const Part& part : kParts) {
    std::vector<double> values;
    // A phase that a run lacks took no time: in ps servers update, and one device sends nothing.
    for (const Run* run : group.runs) values.push_back(phase(*run, part.phase).value_or(0));
    bar.parts.push_back(median(std::move(values)));
  }
  const double sum = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
  bar.parts.push_back(std::max(0.0, bar.whole - sum));
  return bar;
}

// Medians of maxima over ranks do not add up. A note says so, and by how much they exceed the step.
void note_excess(StackedChart& chart) {
  double most = 0;
  for (const StackedBar& bar : chart.bars) {
    const double sum = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
    if (bar.whole > 0) most = std::max(most, sum / bar.whole - 1);
  }
  std::string note =
      "parts are medians of the slowest rank and do not add up exactly to the median step";
  if (most > kVisibleExcess) note += fmt::format(": they exceed it by up to {:.0f} %", 100 * most);
  chart.caption.notes.push_back(note);
  chart.caption.notes.emplace_back(
      "other: loss, waiting for other ranks, launching, and what no phase covers");
}

}  // namespace

StackedChart breakdown_chart(std::span<const Report> reports) {
  ChartRuns runs = chart_runs(reports, "Step time", unfit_breakdown);
  limit_groups(runs, kMostBreakdownBars);
  StackedChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  for (const Part& part : kParts) chart.parts.emplace_back(part.name);
  chart.parts.emplace_back("other");
  for (std::size_t i = 0; i < chart.parts.size(); ++i) chart.part_styles.push_back(i);
  chart.whole = "median step";
  for (const RunGroup& group : runs.groups) chart.bars.push_back(bar_of(group));
  note_excess(chart);
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
