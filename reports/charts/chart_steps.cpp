// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts within a step: the distribution of step times and their course along the run, and when
// each gradient bucket was ready, started, met its peers and ended. Samples may be millions: each
// one is looked at a few times and none is dropped.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/ranges.h"
#include "reports/charts/chart_runs.h"

namespace ddpbench::report {
namespace {

// ---- steps ----

constexpr std::size_t kMostBins = 12 * kStepBins;  // of all groups: each is a shape
constexpr double kMostOverMedian = 3;              // see StepsChart::shown_s

std::string unfit_steps(const Run& run) {
  if (run.step.samples_s.empty()) return "no step was timed";
  return std::ranges::all_of(run.step.samples_s, plausible) ? ""
                                                            : "its step times are not plausible";
}

std::size_t longest(const RunGroup& group) {
  return largest(group.runs, std::size_t{0},
                 [](const Run* run) { return run->step.samples_s.size(); });
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
  std::ranges::sort(values);
  return {static_cast<double>(first), static_cast<double>(last), values.front(),
          quantile(values, 0.5), values.back()};
}

std::vector<StepBin> bins_of(const RunGroup& group, std::size_t max_bins) {
  const std::size_t steps = longest(group);
  const std::size_t count = std::min(steps, max_bins);
  return mapped(std::views::iota(std::size_t{0}, count), [&](std::size_t i) {
    // The bins' numbers of steps differ by one at most.
    return bin_of(group, i * steps / count, (i + 1) * steps / count - 1);
  });
}

// A sample may be of several steps (localsgd).
std::vector<double> saves_of(const RunGroup& group) {
  std::vector<double> saves;
  for (const Run* run : group.runs) {
    const auto samples = static_cast<double>(run->step.samples_s.size());
    const double share = samples / static_cast<double>(std::max<std::int64_t>(run->step.count, 1));
    const std::int64_t before = run->resumed ? run->resumed->step : 0;
    for (const CheckpointRow& row : run->checkpoints) {
      saves.push_back(static_cast<double>(row.step - before) * share);
    }
  }
  return saves;
}

StepGroup step_group(const RunGroup& group, std::size_t max_bins) {
  std::vector<double> samples;
  for (const Run* run : group.runs) {
    samples.insert(samples.end(), run->step.samples_s.begin(), run->step.samples_s.end());
  }
  StepGroup result{group};
  result.count = static_cast<std::int64_t>(samples.size());
  std::ranges::sort(samples);
  result.q1_s = quantile(samples, 0.25);
  result.q3_s = quantile(samples, 0.75);
  result.time_s = summarize(std::move(samples));
  result.bins = bins_of(group, max_bins);
  result.saves = saves_of(group);
  return result;
}

double end_of_scale(const std::vector<StepGroup>& groups) {
  double median_s = 0, most_s = 0;
  for (const StepGroup& group : groups) {
    median_s = std::max(median_s, group.time_s.median);
    most_s = std::max(most_s, group.time_s.max);
  }
  return median_s > 0 ? std::min(most_s, kMostOverMedian * median_s) : most_s;
}

// ---- buckets ----

constexpr std::size_t kMostTimelineBars = 96;  // of one group

bool sane(const BucketRow& row) {
  return plausible(row.ready_s) && plausible(row.start_s) && plausible(row.arrived_s) &&
         plausible(row.end_s);
}

std::string unfit_buckets(const Run& run) {
  if (run.world_size == 1 && run.servers == 0) return "one device sends nothing";
  bool any = false;
  for (const DeviceRow& device : run.devices) {
    if (!std::ranges::all_of(device.buckets, sane)) return "its bucket times are not plausible";
    any = any || !device.buckets.empty();
  }
  return any ? "" : "no buckets were recorded";
}

// With M servers of ps, buckets 0 to M - 1 are pushes of shards, and M to 2 M - 1 are pulls.
std::string label_of(int rank, int bucket, int servers) {
  if (servers == 0) return fmt::format("rank {} bucket {}", rank, bucket);
  const bool push = bucket < servers;
  return fmt::format("rank {} {} {}", rank, push ? "push" : "pull",
                     push ? bucket : bucket - servers);
}

// When the backward pass of the rank begins and ends: medians over the repetitions that tell it.
std::pair<double, double> backward_of(const RunGroup& group, int rank) {
  std::vector<double> begins, ends;
  for (const DeviceRow& device : devices_of(group)) {
    const std::optional<double> backward_s = phase_of(device.phases, "backward_s").value;
    if (device.rank != rank || !backward_s) continue;
    double begin = 0;
    for (const char* before : {"data_wait_s", "forward_s", "loss_s"})
      begin += seconds_of(device.phases, before);
    begins.push_back(begin);
    ends.push_back(begin + *backward_s);
  }
  if (begins.empty() || !std::ranges::all_of(ends, plausible)) return {0, 0};
  return {median(std::move(begins)), median(std::move(ends))};
}

std::vector<BucketBar> bars_of(const RunGroup& group) {
  std::map<std::pair<int, int>, std::vector<const BucketRow*>> rows;
  for (const DeviceRow& device : devices_of(group)) {
    for (const BucketRow& row : device.buckets) rows[{device.rank, row.bucket}].push_back(&row);
  }
  std::vector<BucketBar> bars;
  for (const auto& [key, found] : rows) {
    const auto [begin_s, end_s] = backward_of(group, key.first);
    bars.push_back(
        {key.first, label_of(key.first, key.second, group.runs.front()->servers),
         median(mapped(found, &BucketRow::ready_s)), median(mapped(found, &BucketRow::start_s)),
         median(mapped(found, &BucketRow::arrived_s)), median(mapped(found, &BucketRow::end_s)),
         found.front()->bytes, begin_s, end_s});
  }
  return bars;
}

bool arrivals_untold(const RunGroup& group) {
  return std::ranges::any_of(devices_of(group), [](const DeviceRow& device) {
    return std::ranges::any_of(device.buckets,
                               [](const BucketRow& row) { return !row.arrived_reason.empty(); });
  });
}

BucketGroup bucket_group(const RunGroup& group, ChartCaption& caption) {
  BucketGroup result{group, 0, bars_of(group)};
  std::vector<double> steps;
  for (const Run* run : group.runs) {
    if (run->step.time_s && plausible(run->step.time_s->median)) {
      steps.push_back(run->step.time_s->median);
    }
  }
  if (!steps.empty()) result.step_s = median(std::move(steps));
  if (result.bars.size() > kMostTimelineBars) {
    caption.notes.push_back(fmt::format(
        "{}: a picture has room for the first {} of {} rows, up to {}", group.name,
        kMostTimelineBars, result.bars.size(), result.bars[kMostTimelineBars - 1].label));
    result.bars.resize(kMostTimelineBars);
  }
  return result;
}

}  // namespace

StepsChart steps_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Step times", unfit_steps);
  return chart_of<StepsChart>("steps", "Step times", runs, [&](StepsChart& chart) {
    const std::size_t bins = std::min(kStepBins, kMostBins / runs.groups.size());
    bool repeated = false;
    for (const RunGroup& group : runs.groups) {
      chart.groups.push_back(step_group(group, bins));
      repeated = repeated || group.runs.size() > 1;
    }
    chart.shown_s = end_of_scale(chart.groups);
    chart.caption.notes.emplace_back(
        "box: quartiles and median; whiskers: 5th and 95th percentile; crosses: minimum and "
        "maximum");
    chart.caption.notes.push_back(fmt::format(
        "along the run: median, minimum and maximum of neighbouring steps{}; none is left out",
        repeated ? " of all repetitions" : ""));
    const auto saved = [](const StepGroup& group) { return !group.saves.empty(); };
    if (std::ranges::any_of(chart.groups, saved)) {
      chart.caption.notes.emplace_back("strokes below a strip: a checkpoint was saved");
    }
    const auto beyond = [&chart](const StepGroup& group) {
      return group.time_s.max > chart.shown_s;
    };
    if (std::ranges::any_of(chart.groups, beyond)) {
      chart.caption.notes.push_back(fmt::format(
          "the scale ends at {} times the largest median; an arrow at its end stands for slower "
          "steps",
          kMostOverMedian));
    }
  });
}

BucketsChart buckets_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Gradient buckets", unfit_buckets);
  return chart_of<BucketsChart>("buckets", "Gradient buckets", runs, [&](BucketsChart& chart) {
    chart.caption.notes.emplace_back(
        "queueing: ready, held up by earlier buckets; waiting: for other ranks; transfer: the "
        "collective itself; medians, from the step's begin");
    if (std::ranges::any_of(runs.groups, arrivals_untold)) {
      chart.caption.notes.emplace_back(
          "where the backend does not tell when the peers had come, waiting is part of the "
          "transfer");
    }
    for (const RunGroup& group : runs.groups) {
      chart.groups.push_back(bucket_group(group, chart.caption));
      const BucketGroup& added = chart.groups.back();
      chart.end_s = std::max(chart.end_s, added.step_s);
      for (const BucketBar& bar : added.bars) {
        chart.end_s = std::max({chart.end_s, bar.ready_s, bar.end_s});
      }
    }
  });
}

}  // namespace ddpbench::report
