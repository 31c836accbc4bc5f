// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of device memory by category, for the primary device, other devices and servers.
#include <fmt/format.h>

#include <algorithm>

#include "reports/charts/chart_runs.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostMemoryBars = 60;
// In the order of a bar. Other categories that a report names follow, sorted by name.
constexpr std::string_view kKnown[] = {"weights",     "gradients", "optimizer",     "state",
                                       "activations", "workspace", "communication", "input"};
// Styles of kKnown: neighbours differ in brightness. Other categories have style 5, too.
constexpr std::size_t kStyles[] = {2, 1, 4, 5, 7, 0, 3, 6};

// The only part of a device whose peak is known, but not of what it consists (imports).
constexpr const char* kNotSplit = "not split";

bool is_not_split(const DeviceRow& device) {
  return device.by_category_bytes.empty() && device.peak_memory().value.value_or(0) > 0;
}

std::string unfit_memory(const Run& run) {
  const bool any = std::ranges::any_of(run.devices, [](const DeviceRow& device) {
    return !device.by_category_bytes.empty() || is_not_split(device);
  });
  return any ? "" : "no memory was recorded";
}

enum class Place : std::uint8_t { primary, others, servers };

Place place_of(const DeviceRow& device) {
  if (device.role == "server") return Place::servers;
  return device.rank == 0 ? Place::primary : Place::others;
}

std::string label_of(Place place, int count) {
  const std::string of = count > 1 ? fmt::format(" (most of {})", count) : "";
  if (place == Place::primary) return "primary";
  return (place == Place::others ? count > 1 ? "others" : "other"
          : count > 1            ? "servers"
                                 : "server") +
         of;
}

// The device at `place` with the largest peak over all repetitions, and the number of devices
// there.
std::pair<const DeviceRow*, int> largest(const RunGroup& group, Place place) {
  const DeviceRow* found = nullptr;
  int most = 0;
  for (const Run* run : group.runs) {
    int count = 0;
    for (const DeviceRow& device : run->devices) {
      if (place_of(device) != place) continue;
      ++count;
      if (found == nullptr || device.peak_bytes > found->peak_bytes) found = &device;
    }
    most = std::max(most, count);
  }
  return {found, most};
}

bool is_known(const std::string& category) {
  return std::ranges::find(kKnown, category) != std::end(kKnown);
}

// The categories of which a device uses any bytes, in the order of a bar.
std::vector<std::string> categories(const ChartRuns& runs) {
  std::vector<std::string> used;
  for (const RunGroup& group : runs.groups) {
    for (const Run* run : group.runs) {
      for (const DeviceRow& device : run->devices) {
        for (const auto& [name, bytes] : device.by_category_bytes) {
          if (bytes > 0 && std::ranges::find(used, name) == used.end()) used.push_back(name);
        }
        if (is_not_split(device) && std::ranges::find(used, kNotSplit) == used.end()) {
          used.emplace_back(kNotSplit);
        }
      }
    }
  }
  std::ranges::sort(used, {}, [](const std::string& name) {
    const auto known = std::ranges::find(kKnown, name) - std::begin(kKnown);
    return std::pair(known, is_known(name) ? std::string() : name);
  });
  return used;
}

StackedBar bar_of(const RunGroup& group, const StackedChart& chart, const DeviceRow& device,
                  std::string label) {
  StackedBar bar{group.series,        group.devices, group.name, std::move(label), {}, 0,
                 group.oversubscribed};
  for (const std::string& name : chart.parts) {
    const auto found = device.by_category_bytes.find(name);
    const bool there = found != device.by_category_bytes.end();
    const bool whole = name == kNotSplit && is_not_split(device);
    bar.parts.push_back(static_cast<double>(whole ? device.peak_bytes : there ? found->second : 0));
  }
  bar.whole = static_cast<double>(device.peak_bytes);
  return bar;
}

}  // namespace

StackedChart memory_chart(std::span<const Report> reports, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Device memory", unfit_memory);
  limit_groups(runs, kMostMemoryBars, room);
  StackedChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  chart.parts = categories(runs);
  for (const std::string& name : chart.parts) {
    const auto known = std::ranges::find(kKnown, name) - std::begin(kKnown);
    chart.part_styles.push_back(is_known(name) ? kStyles[known] : 5);
  }
  chart.whole = "peak of the sum";
  for (const RunGroup& group : runs.groups) {
    for (const Place place : {Place::primary, Place::others, Place::servers}) {
      const auto [device, count] = largest(group, place);
      if (device != nullptr)
        chart.bars.push_back(bar_of(group, chart, *device, label_of(place, count)));
    }
  }
  if (chart.parts != std::vector<std::string>{kNotSplit}) {
    chart.caption.notes.emplace_back(
        "each category at its own peak; they peak at different moments, so the peak of their sum "
        "may be lower");
  }
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
