// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of the share of a step in which each device computes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostBusyBars = 120;

// What a busy device does, as busy_share() counts it.
struct Work {
  const char* name;
  const char* phase;  // key of DeviceRow::phases
  std::size_t style;  // that of the breakdown's part
};
constexpr std::array<Work, 3> kWork = {
    {{"forward", "forward_s", 1}, {"backward", "backward_s", 2}, {"update", "optimizer_s", 4}}};

std::string unfit_busy(const Run& run) {
  if (least_busy(run) != nullptr) return "";
  for (const DeviceRow& device : run.devices) {
    if (device.role == "worker") return missing_reason(busy_share(device), run);
  }
  return "no device was recorded";
}

// The share of the device's step that `work` takes. Work that the device does not do takes none.
double share_of(const DeviceRow& device, const Work& work) {
  const auto found = device.phases.find(work.phase);
  const bool known = found != device.phases.end() && found->second.value.has_value();
  return known ? *found->second.value / *device.step_time_median_s.value : 0;
}

// The bar of worker `rank`; nothing where no repetition knows how busy it was.
std::optional<StackedBar> bar_of(const RunGroup& group, int rank) {
  std::vector<double> whole;
  std::array<std::vector<double>, kWork.size()> parts;
  for (const Run* run : group.runs) {
    for (const DeviceRow& device : run->devices) {
      const Figure share = busy_share(device);
      if (device.rank != rank || !share.value) continue;
      whole.push_back(*share.value);
      for (std::size_t i = 0; i < kWork.size(); ++i) parts[i].push_back(share_of(device, kWork[i]));
    }
  }
  if (whole.empty()) return std::nullopt;
  StackedBar bar{group.series, group.devices, group.name, {}, {}, 0, group.oversubscribed};
  if (group.devices > 1) bar.label = fmt::format("rank {}", rank);
  bar.whole = median(whole);
  for (const std::vector<double>& values : parts) bar.parts.push_back(median(values));
  return bar;
}

// How many groups have room together.
std::size_t groups_with_room(const std::vector<RunGroup>& groups) {
  std::size_t bars = 0, count = 0;
  for (const RunGroup& group : groups) {
    bars += static_cast<std::size_t>(group.devices);
    if (bars > kMostBusyBars) break;
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

}  // namespace

StackedChart busy_chart(std::span<const Report> reports, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Busy share", unfit_busy);
  limit_groups(runs, groups_with_room(runs.groups), room);
  StackedChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  for (const Work& work : kWork) {
    chart.parts.emplace_back(work.name);
    chart.part_styles.push_back(work.style);
  }
  chart.whole = "busy share";
  chart.end = 1;
  for (const RunGroup& group : runs.groups) {
    for (int rank = 0; rank < group.devices; ++rank) {
      if (auto bar = bar_of(group, rank)) chart.bars.push_back(*std::move(bar));
    }
  }
  chart.caption.notes.emplace_back(
      "the share of the median step in which a device computes; the rest is communication, "
      "waiting, "
      "input, loss and launching");
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
