// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of how the step time splits into phases.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostBreakdownBars = 120;
constexpr double kVisibleExcess = 0.02;  // share of the step above which a note says so

struct Part {
  const char* name;
  const char* phase;                  // key of Run::phases
  const char* other_phase = nullptr;  // which counts, too
};
constexpr Part kParts[] = {
    {"input wait", "data_wait_s"}, {"forward", "forward_s"},
    {"backward", "backward_s"},    {"exposed communication", "comm_exposed_s", "sync_batch_norm_s"},
    {"update", "optimizer_s"},     {"waiting for devices", "comm_wait_exposed_s"}};

std::optional<double> phase(const Run& run, const char* key) {
  const auto found = run.phases.find(key);
  if (found == run.phases.end() || !found->second.value) return std::nullopt;
  return plausible(*found->second.value) ? found->second.value : std::nullopt;
}

double known_or_zero(const std::map<std::string, Figure>& phases, const char* key) {
  const auto found = phases.find(key);
  return found == phases.end() ? 0 : found->second.value.value_or(0);
}

// A phase that a run lacks took no time: in ps servers update, and one device sends nothing.
double time_of(const Run& run, const Part& part) {
  const double own = phase(run, part.phase).value_or(0);
  return part.other_phase == nullptr ? own : own + phase(run, part.other_phase).value_or(0);
}

// Adds "other": what is left of the whole.
void close_bar(StackedBar& bar) {
  const double sum = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
  bar.parts.push_back(std::max(0.0, bar.whole - sum));
}

std::string unfit_breakdown(const Run& run) {
  if (!run.step.time_s) return "no step was timed";
  if (!plausible(run.step.time_s->median)) return "its step time is not plausible";
  const auto forward = run.phases.find("forward_s");
  if (forward == run.phases.end()) return "phases were not observed";
  if (phase(run, "forward_s") && phase(run, "backward_s")) return {};
  return forward->second.reason.empty() ? "phases were not observed" : forward->second.reason;
}

// dp: the bar of the devices beside the primary, each part the median over them. What they do in a
// step but wait is forward and backward, and the exchanges within them.
std::optional<StackedBar> others_bar(const RunGroup& group) {
  std::vector<double> forward, backward, exchange, idle, steps;
  for (const Run* run : group.runs) {
    const Figure idle_s = others_idle(*run);
    if (!idle_s.value) return std::nullopt;
    idle.push_back(*idle_s.value);
    steps.push_back(run->step.time_s->median);
    for (const DeviceRow& device : run->devices) {
      if (device.rank == 0) continue;
      forward.push_back(known_or_zero(device.phases, "forward_s"));
      backward.push_back(known_or_zero(device.phases, "backward_s"));
      exchange.push_back(known_or_zero(device.phases, "sync_batch_norm_s"));
    }
  }
  StackedBar bar{group.series, group.devices, group.name, "others", {}, 0, group.oversubscribed};
  bar.whole = median(std::move(steps));
  bar.parts = {
      0, median(std::move(forward)), median(std::move(backward)), median(std::move(exchange)),
      0, median(std::move(idle))};
  close_bar(bar);
  return bar;
}

StackedBar bar_of(const RunGroup& group) {
  StackedBar bar{group.series, group.devices, group.name, {}, {}, 0, group.oversubscribed};
  std::vector<double> steps;
  for (const Run* run : group.runs) steps.push_back(run->step.time_s->median);
  bar.whole = median(steps);
  for (const Part& part : kParts) {
    std::vector<double> values;
    for (const Run* run : group.runs) values.push_back(time_of(*run, part));
    bar.parts.push_back(median(std::move(values)));
  }
  close_bar(bar);
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
  chart.caption.notes.emplace_back("other: loss, launching, and what no phase covers");
}

}  // namespace

StackedChart breakdown_chart(std::span<const Report> reports, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Step time", unfit_breakdown);
  limit_groups(runs, kMostBreakdownBars, room);
  StackedChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  for (const Part& part : kParts) chart.parts.emplace_back(part.name);
  chart.parts.emplace_back("other");
  chart.part_styles = {0, 1, 2, 3, 4, 6, 5};  // "other" is the grey one
  chart.whole = "median step";
  for (const RunGroup& group : runs.groups) {
    chart.bars.push_back(bar_of(group));
    if (auto others = others_bar(group)) {
      chart.bars.back().label = "primary";
      chart.bars.push_back(std::move(*others));
    }
  }
  note_excess(chart);
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
