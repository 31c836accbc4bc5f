// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of stacked bars: how the step time splits into phases, the memory of devices by
// category, and the share of a step in which each device computes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "reports/charts/chart_runs.h"

namespace ddpbench::report {
namespace {

// ---- breakdown ----

constexpr double kVisibleExcess = 0.02;  // share of the step above which a note says so

struct Part {
  const char* name;
  const char* phase;  // key of Run::phases
  std::size_t style;
  const char* other_phase = nullptr;  // which counts, too
};
constexpr Part kParts[] = {{"input wait", "data_wait_s", 0},
                           {"forward", "forward_s", 1},
                           {"backward", "backward_s", 2},
                           {"communication not hidden", "comm_exposed_s", 3, "sync_batch_norm_s"},
                           {"update", "optimizer_s", 4},
                           {"waiting for devices", "comm_wait_exposed_s", 6, "stage_wait_s"}};
constexpr std::size_t kOtherStyle = 5;  // the grey one

void add_part(const std::string& name, std::size_t style, StackedChart& chart) {
  chart.parts.push_back(name);
  chart.part_styles.push_back(style);
}

std::optional<double> phase(const Phases& phases, const char* key) {
  const std::optional<double> found = phase_of(phases, key).value;
  return found && plausible(*found) ? found : std::nullopt;
}

// A phase that a run lacks took no time: in ps servers update, and one device sends nothing.
double time_of(const Phases& phases, const char* key) {
  return key == nullptr ? 0 : phase(phases, key).value_or(0);
}

// Adds "other": what is left of the whole.
void close_bar(StackedBar& bar) { bar.parts.push_back(std::max(0.0, bar.whole - bar.sum())); }

std::string unfit_breakdown(const Run& run) {
  if (!run.step.time_s) return "no step was timed";
  if (!plausible(run.step.time_s->median)) return "its step time is not plausible";
  if (phase(run.phases, "forward_s") && phase(run.phases, "backward_s")) return {};
  const std::string reason = phase_of(run.phases, "forward_s").reason;
  return reason.empty() ? "phases were not observed" : reason;
}

// A bar of the median step, of which `parts` and "other" are left to add.
StackedBar step_bar(const RunGroup& group, const char* label) {
  StackedBar bar{group, label};
  bar.whole = median(mapped(group.runs, [](const Run* run) { return run->step.time_s->median; }));
  return bar;
}

// dp: the bar of the devices beside the primary, each part the median over them. What they do in a
// step but wait is forward and backward, and the exchanges within them.
std::optional<StackedBar> others_bar(const RunGroup& group) {
  for (const Run* run : group.runs) {
    if (!others_idle(*run).value) return std::nullopt;
  }
  const auto is_other = [](const DeviceRow& device) { return device.rank > 0; };
  const auto median_of = [&](const char* key) {
    return median(mapped(devices_of(group) | std::views::filter(is_other),
                         [key](const DeviceRow& device) { return time_of(device.phases, key); }));
  };
  StackedBar bar = step_bar(group, "others");
  bar.parts = {0,
               median_of("forward_s"),
               median_of("backward_s"),
               median_of("sync_batch_norm_s"),
               0,
               median(mapped(group.runs, [](const Run* run) { return *others_idle(*run).value; }))};
  close_bar(bar);
  return bar;
}

StackedBar bar_of(const RunGroup& group) {
  StackedBar bar = step_bar(group, "");
  for (const Part& part : kParts) {
    bar.parts.push_back(median(mapped(group.runs, [&part](const Run* run) {
      return time_of(run->phases, part.phase) + time_of(run->phases, part.other_phase);
    })));
  }
  close_bar(bar);
  return bar;
}

// Medians of maxima over ranks do not add up. A note says so, and by how much they exceed the step.
void note_excess(StackedChart& chart) {
  double most = 0;
  for (const StackedBar& bar : chart.bars) {
    if (bar.whole > 0) most = std::max(most, bar.sum() / bar.whole - 1);
  }
  std::string note =
      "parts are medians of the slowest rank and do not add up exactly to the median step";
  if (most > kVisibleExcess) note += fmt::format(": they exceed it by up to {:.0f} %", 100 * most);
  chart.caption.notes.push_back(note);
  chart.caption.notes.emplace_back("other: loss, launching, and what no phase covers");
}

// ---- memory ----

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
  if (place == Place::primary) return "primary";
  const char* noun = place == Place::others ? "other" : "server";
  return count > 1 ? fmt::format("{}s (most of {})", noun, count) : noun;
}

// The device at `place` with the largest peak over all repetitions, and the number of devices
// there.
std::pair<const DeviceRow*, int> largest_device(const RunGroup& group, Place place) {
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

// The place in kKnown, or its size.
std::size_t rank_of(const std::string& category) {
  return static_cast<std::size_t>(std::ranges::find(kKnown, category) - std::begin(kKnown));
}

// The categories of which a device uses any bytes, in the order of a bar.
std::vector<std::string> categories(const ChartRuns& runs) {
  std::set<std::string> found;
  for (const RunGroup& group : runs.groups) {
    for (const DeviceRow& device : devices_of(group)) {
      for (const auto& [name, bytes] : device.by_category_bytes) {
        if (bytes > 0) found.insert(name);
      }
      if (is_not_split(device)) found.insert(kNotSplit);
    }
  }
  std::vector<std::string> used(found.begin(), found.end());
  std::ranges::stable_sort(used, {}, rank_of);
  return used;
}

StackedBar bar_of(const RunGroup& group, const StackedChart& chart, const DeviceRow& device,
                  std::string label) {
  StackedBar bar{group, std::move(label)};
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

// What a busy device does, as busy_share() counts it: forward, backward, update.
constexpr std::array<Part, 3> kWork = {kParts[1], kParts[2], kParts[4]};

std::string unfit_busy(const Run& run) {
  if (knows_busy_shares(run)) return "";
  for (const DeviceRow& device : run.devices) {
    if (device.role == "worker") return missing_reason(busy_share(device), run);
  }
  return "no device was recorded";
}

// The bar of worker `rank`; nothing where no repetition knows how busy it was.
std::optional<StackedBar> bar_of(const RunGroup& group, int rank) {
  std::vector<double> whole;
  std::array<std::vector<double>, kWork.size()> parts;
  for (const DeviceRow& device : devices_of(group)) {
    const Figure share = busy_share(device);
    if (device.rank != rank || !share.value) continue;
    whole.push_back(*share.value);
    for (std::size_t i = 0; i < kWork.size(); ++i) {
      parts[i].push_back(time_of(device.phases, kWork[i].phase) / *device.step_time_median_s.value);
    }
  }
  if (whole.empty()) return std::nullopt;
  StackedBar bar{group};
  if (group.devices > 1) bar.label = fmt::format("rank {}", rank);
  bar.whole = median(whole);
  for (const std::vector<double>& values : parts) bar.parts.push_back(median(values));
  return bar;
}

// The median of what the driver sampled of a run's GPUs, as a share of `whole` or the highest
// sample.
struct GpuBar {
  const char* label;
  double whole;
  Known<SampleRange> GpuTelemetry::*figure;
};
constexpr GpuBar kGpuBars[] = {{"GPU use", 1, &GpuTelemetry::utilization_ratio},
                               {"power, of {:.0f} W", 0, &GpuTelemetry::power_w},
                               {"clock, of {:.0f} MHz", 0, &GpuTelemetry::sm_clock_mhz}};

std::optional<StackedBar> bar_of(const RunGroup& group, const GpuBar& gpu) {
  std::vector<double> medians;
  double most = gpu.whole;
  for (const Run* run : group.runs) {
    const auto range = gpu_figure(*run, gpu.figure).value;
    if (!range) continue;
    medians.push_back(range->median);
    most = std::max(most, range->max);
  }
  if (medians.empty() || most <= 0) return std::nullopt;
  StackedBar bar{group, fmt::format(fmt::runtime(gpu.label), most)};
  bar.whole = median(std::move(medians)) / most;
  bar.parts = {0, 0, 0, bar.whole};
  return bar;
}

}  // namespace

StackedChart breakdown_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Step time", unfit_breakdown);
  return chart_of<StackedChart>("breakdown", "Where a step goes", runs, [&](StackedChart& chart) {
    for (const Part& part : kParts) add_part(part.name, part.style, chart);
    add_part("other", kOtherStyle, chart);
    chart.description = "A bar for each run, made of the phases of a training step.";
    chart.whole = "median step";
    for (const RunGroup& group : runs.groups) {
      chart.bars.push_back(bar_of(group));
      if (auto others = others_bar(group)) {
        chart.bars.back().label = "primary";
        chart.bars.push_back(std::move(*others));
      }
    }
    note_excess(chart);
    for (const RunGroup& group : runs.groups) {
      const std::string idle = stage_idle_words(*group.runs.front());
      if (!idle.empty()) chart.caption.notes.push_back(group.name + ": " + idle);
    }
  });
}

StackedChart memory_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Device memory", unfit_memory);
  return chart_of<StackedChart>("memory", "Memory of a device", runs, [&](StackedChart& chart) {
    chart.measure = StackedChart::Measure::memory;
    for (const std::string& name : categories(runs)) {
      const std::size_t rank = rank_of(name);
      add_part(name, rank < std::size(kKnown) ? kStyles[rank] : kOtherStyle, chart);
    }
    chart.description = "Bars for the primary device and others, made of memory categories.";
    chart.whole = "peak of the sum";
    for (const RunGroup& group : runs.groups) {
      for (const Place place : {Place::primary, Place::others, Place::servers}) {
        const auto [device, count] = largest_device(group, place);
        if (device == nullptr) continue;
        chart.bars.push_back(bar_of(group, chart, *device, label_of(place, count)));
      }
    }
    if (chart.parts != std::vector<std::string>{kNotSplit}) {
      chart.caption.notes.emplace_back(
          "each category at its own peak; they peak at different moments, so the peak of their "
          "sum may be lower");
    }
  });
}

StackedChart staleness_chart(std::span<const Report> reports) {
  constexpr std::array<const char*, 5> kBins = {"none", "1", "2 to 3", "4 to 7", "8 or more"};
  const ChartRuns runs = chart_runs(reports, "Staleness", [](const Run& run) -> std::string {
    const bool known = run.pushes && !run.pushes->pushes_by_staleness.empty();
    return known ? "" : "its servers do not apply pushes one by one";
  });
  return chart_of<StackedChart>(
      "staleness", "How stale gradients are", runs, [&](StackedChart& chart) {
        chart.measure = StackedChart::Measure::share;
        for (std::size_t i = 0; i < kBins.size(); ++i) add_part(kBins[i], i, chart);
        chart.description = "A bar for each run, made of the pushes by their staleness.";
        chart.whole = "all pushes";
        chart.end = 1;
        for (const RunGroup& group : runs.groups) {
          std::array<double, kBins.size()> pushes = {};
          double all = 0;
          for (const Run* run : group.runs) {
            for (const auto& [staleness, count] : run->pushes->pushes_by_staleness) {
              const auto width = static_cast<std::size_t>(std::bit_width(std::stoull(staleness)));
              pushes[std::min(width, kBins.size() - 1)] += static_cast<double>(count);
              all += static_cast<double>(count);
            }
          }
          StackedBar& bar = chart.bars.emplace_back(StackedBar{group});
          bar.whole = 1;
          for (const double part : pushes) bar.parts.push_back(part / all);
        }
        chart.caption.notes.emplace_back(
            "the updates by other workers that a gradient's weights lack");
      });
}

StackedChart busy_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Busy share", unfit_busy);
  return chart_of<StackedChart>("busy", "How busy the devices are", runs, [&](StackedChart& chart) {
    chart.measure = StackedChart::Measure::share;
    for (const Part& work : kWork) add_part(work.name, work.style, chart);
    chart.description = "A bar for each device, made of the work of a training step.";
    chart.whole = "busy share";
    chart.end = 1;
    for (const RunGroup& group : runs.groups) {
      for (int rank = 0; rank < group.devices; ++rank) {
        if (auto bar = bar_of(group, rank)) chart.bars.push_back(*std::move(bar));
      }
      for (const GpuBar& gpu : kGpuBars) {
        if (auto bar = bar_of(group, gpu)) chart.bars.push_back(*std::move(bar));
      }
    }
    const auto sampled = [](const StackedBar& bar) { return bar.parts.size() > kWork.size(); };
    if (std::ranges::any_of(chart.bars, sampled)) {
      add_part("by the driver's samples", kOtherStyle, chart);
      for (StackedBar& bar : chart.bars) bar.parts.resize(chart.parts.size());
    }
    chart.caption.notes.emplace_back(
        "the share of the median step in which a device computes; the rest is communication, "
        "waiting, input, loss and launching");
  });
}

}  // namespace ddpbench::report
