// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of when each gradient bucket was ready, started, met its peers and ended, on each rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostTimelines = 24;
constexpr std::size_t kMostTimelineBars = 96;  // of one group

bool sane(const BucketRow& row) {
  return plausible(row.ready_s) && plausible(row.start_s) && plausible(row.arrived_s) &&
         plausible(row.end_s);
}

std::string unfit_buckets(const Run& run) {
  bool any = false;
  for (const DeviceRow& device : run.devices) {
    if (!std::ranges::all_of(device.buckets, sane)) return "its bucket times are not plausible";
    any = any || !device.buckets.empty();
  }
  if (any) return {};
  return run.world_size == 1 ? "one device sends nothing" : "no buckets were recorded";
}

// With M servers of ps, buckets 0 to M - 1 are pushes of shards, and M to 2 M - 1 are pulls.
std::string label_of(int rank, int bucket, int servers) {
  if (servers == 0) return fmt::format("rank {} bucket {}", rank, bucket);
  const bool push = bucket < servers;
  return fmt::format("rank {} {} {}", rank, push ? "push" : "pull",
                     push ? bucket : bucket - servers);
}

double median_of(const std::vector<const BucketRow*>& rows, double BucketRow::*member) {
  std::vector<double> values;
  for (const BucketRow* row : rows) values.push_back(row->*member);
  return median(std::move(values));
}

std::vector<BucketBar> bars_of(const RunGroup& group) {
  std::map<std::pair<int, int>, std::vector<const BucketRow*>> rows;
  for (const Run* run : group.runs) {
    for (const DeviceRow& device : run->devices) {
      for (const BucketRow& row : device.buckets) rows[{device.rank, row.bucket}].push_back(&row);
    }
  }
  std::vector<BucketBar> bars;
  for (const auto& [key, found] : rows) {
    bars.push_back({key.first, label_of(key.first, key.second, group.runs.front()->servers),
                    median_of(found, &BucketRow::ready_s), median_of(found, &BucketRow::start_s),
                    median_of(found, &BucketRow::arrived_s), median_of(found, &BucketRow::end_s),
                    found.front()->bytes});
  }
  return bars;
}

BucketGroup bucket_group(const RunGroup& group, ChartRoom room, ChartCaption& caption) {
  BucketGroup result{group.series,   group.devices,       group.name, 0,
                     bars_of(group), group.oversubscribed};
  std::vector<double> steps;
  for (const Run* run : group.runs) {
    if (run->step.time_s && plausible(run->step.time_s->median)) {
      steps.push_back(run->step.time_s->median);
    }
  }
  if (!steps.empty()) result.step_s = median(std::move(steps));
  if (room == ChartRoom::picture && result.bars.size() > kMostTimelineBars) {
    caption.notes.push_back(
        fmt::format("{}: a picture has room for the first {} of {} rows, up to {}; the terminal "
                    "shows all",
                    group.name, kMostTimelineBars, result.bars.size(),
                    result.bars[kMostTimelineBars - 1].label));
    result.bars.resize(kMostTimelineBars);
  }
  return result;
}

}  // namespace

BucketsChart buckets_chart(std::span<const Report> reports, ChartRoom room) {
  ChartRuns runs = chart_runs(reports, "Gradient buckets", unfit_buckets);
  limit_groups(runs, kMostTimelines, room);
  BucketsChart chart;
  begin_chart(chart, runs);
  if (!chart.empty_reason.empty()) return chart;
  chart.caption.notes.emplace_back(
      "queueing: ready, held up by earlier buckets; waiting: for other ranks; transfer: the "
      "collective itself; medians, from the step's begin");
  const bool untold = std::ranges::any_of(runs.groups, [](const RunGroup& group) {
    return std::ranges::any_of(group.runs, [](const Run* run) {
      return std::ranges::any_of(run->devices, [](const DeviceRow& device) {
        return std::ranges::any_of(
            device.buckets, [](const BucketRow& row) { return !row.arrived_reason.empty(); });
      });
    });
  });
  if (untold) {
    chart.caption.notes.emplace_back(
        "where the backend does not tell when the peers had come, waiting is part of the transfer");
  }
  for (const RunGroup& group : runs.groups) {
    chart.groups.push_back(bucket_group(group, room, chart.caption));
    const BucketGroup& added = chart.groups.back();
    chart.end_s = std::max(chart.end_s, added.step_s);
    for (const BucketBar& bar : added.bars) {
      chart.end_s = std::max({chart.end_s, bar.ready_s, bar.end_s});
    }
  }
  end_chart(chart, runs);
  return chart;
}

}  // namespace ddpbench::report
