// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of stacked bars: how the step time splits into phases, the memory of devices by
// category, and the share of a step in which each device computes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// ---- breakdown ----

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

// ---- memory ----

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

// ---- busy ----

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

StackedChart breakdown_chart(std::span<const Report> reports) {
  ChartRuns runs = chart_runs(reports, "Step time", unfit_breakdown);
  limit_groups(runs, kMostBreakdownBars);
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

StackedChart memory_chart(std::span<const Report> reports) {
  ChartRuns runs = chart_runs(reports, "Device memory", unfit_memory);
  limit_groups(runs, kMostMemoryBars);
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

StackedChart busy_chart(std::span<const Report> reports) {
  ChartRuns runs = chart_runs(reports, "Busy share", unfit_busy);
  limit_groups(runs, groups_with_room(runs.groups));
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
