// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_records.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

#include "base/ranges.h"
#include "bench/measure/step_recorder.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// Two quartz clocks of 100 ppm each drift apart by so much a second at most.
constexpr double kMostDrift = 2e-4;
constexpr const char* kNotMeasured = "its ranks ended before they measured it";
constexpr const char* kNoEnd = "the run ended before it was measured again";

void extend(double begin_s, double end_s, double& first_s, double& last_s) {
  first_s = first_s == 0 ? begin_s : std::min(first_s, begin_s);
  last_s = std::max(last_s, end_s);
}

struct Entrance {
  std::size_t ranks = 0;  // that recorded it
  double last_s = 0;
};
using Entrances = std::map<std::pair<std::uint32_t, std::uint32_t>, Entrance>;  // step, bucket

bool is_untold(const launch::BucketRecord& record) { return !record.times.arrived_told; }

Entrances entrances_of(const RankRecords& records) {
  Entrances found;
  for (const launch::BucketRecord& record : records.buckets | std::views::join) {
    Entrance& entrance = found[{record.step, record.times.bucket}];
    entrance.last_s = entrance.ranks == 0 ? record.times.start_s
                                          : std::max(entrance.last_s, record.times.start_s);
    ++entrance.ranks;
  }
  return found;
}

// Tells waiting from communication by the step's buckets, as StepRecorder does where it knows their
// arrival. Compute runs until backward ends; the update waits for all buckets.
void split_again(const std::vector<const launch::BucketRecord*>& buckets,
                 launch::StepRecord& step) {
  StepIntervals intervals;
  intervals.compute = {{step.begin_s, step.backward_end_s}};
  for (const launch::BucketRecord* bucket : buckets) {
    intervals.waiting.push_back({bucket->times.start_s, bucket->times.arrived_s});
    intervals.communication.push_back({bucket->times.arrived_s, bucket->times.end_s});
  }
  fill_communication(intervals, step);
}

void fill_rank(const Entrances& entrances, std::size_t ranks, bool comparable,
               std::vector<launch::BucketRecord>& buckets, std::vector<launch::StepRecord>& steps) {
  std::map<std::uint32_t, std::vector<const launch::BucketRecord*>> by_step;
  std::map<std::uint32_t, bool> untold;
  for (launch::BucketRecord& record : buckets) {
    if (!is_untold(record)) continue;
    const Entrance& entrance = entrances.at({record.step, record.times.bucket});
    by_step[record.step].push_back(&record);
    if (!comparable || entrance.ranks != ranks) {
      untold[record.step] = true;
      continue;
    }
    record.times.arrived_s = std::clamp(entrance.last_s, record.times.start_s,
                                        std::max(record.times.start_s, record.times.end_s));
    record.times.arrived_told = true;
  }
  for (launch::StepRecord& step : steps) {
    if (step.phases_observed == 0 || !by_step.contains(step.step)) continue;
    if (untold.contains(step.step)) {
      step.waits_untold = 1;
    } else {
      split_again(by_step.at(step.step), step);
    }
  }
}

}  // namespace

HostClocks::HostClocks(const RankRecords& records) {
  for (std::size_t r = 0; r < records.results.size(); ++r) {
    const RankResult& result = records.results[r];
    if (result.host.empty()) {
      clock_of_rank_.push_back(-1);
      continue;
    }
    auto known = std::ranges::find(clocks_, result.host, &Clock::host);
    if (known == clocks_.end())
      known = clocks_.insert(known, {.host = result.host, .readings = {}});
    Clock& clock = *known;
    clock_of_rank_.push_back(static_cast<int>(known - clocks_.begin()));
    if (clock.readings.empty()) clock.readings = result.clock;
    clock.last_s = largest(result.clock, clock.last_s, &ClockReading::at_s);
    for (const EpochResult& epoch : result.epochs) {
      extend(epoch.begin_s, epoch.end_s, clock.begin_s, clock.last_s);
    }
    if (r >= records.steps.size()) continue;
    for (const launch::StepRecord& step : records.steps[r]) {
      extend(step.begin_s, step.end_s, clock.begin_s, clock.last_s);
    }
  }
}

const std::string& HostClocks::first_host() const {
  static const std::string kNone;
  return clocks_.empty() ? kNone : clocks_.front().host;
}

// Between two measurements the clocks are taken to drift evenly.
double HostClocks::offset_at(const Clock& clock, double time_s) const {
  if (&clock == clocks_.data()) return 0;
  if (clock.readings.empty()) {
    const double first_s = clocks_.front().begin_s;
    return clock.begin_s == 0 || first_s == 0 ? 0 : clock.begin_s - first_s;
  }
  const ClockReading &begin = clock.readings.front(), &end = clock.readings.back();
  if (end.at_s <= begin.at_s) return begin.offset_s;
  const double share = (time_s - begin.at_s) / (end.at_s - begin.at_s);
  return begin.offset_s + share * (end.offset_s - begin.offset_s);
}

double HostClocks::bound_of(const Clock& clock) const {
  if (&clock == clocks_.data()) return 0;
  if (clock.readings.empty()) return std::numeric_limits<double>::infinity();
  const ClockReading &begin = clock.readings.front(), &end = clock.readings.back();
  if (clock.readings.size() > 1) return std::max(begin.bound_s, end.bound_s);
  return begin.bound_s + kMostDrift * std::max(0.0, clock.last_s - begin.at_s);
}

double HostClocks::bound_s() const {
  const bool unknown = std::ranges::any_of(clock_of_rank_, [](int clock) { return clock < 0; });
  if (unknown) return std::numeric_limits<double>::infinity();
  double most = 0, next = 0;
  for (const Clock& clock : clocks_) {
    const double bound = bound_of(clock);
    next = std::max(next, std::min(most, bound));
    most = std::max(most, bound);
  }
  return most + next;
}

void HostClocks::correct(RankRecords& records) const {
  if (!are_several()) return;
  for (std::size_t r = 0; r < clock_of_rank_.size(); ++r) {
    if (clock_of_rank_[r] < 0) continue;
    const Clock& clock = clocks_[static_cast<std::size_t>(clock_of_rank_[r])];
    const auto shift = [&](auto&... times) { ((times -= offset_at(clock, times)), ...); };
    for (EpochResult& epoch : records.results[r].epochs) shift(epoch.begin_s, epoch.end_s);
    if (r < records.steps.size()) {
      for (launch::StepRecord& step : records.steps[r]) {
        shift(step.begin_s, step.end_s);
        if (step.backward_end_s != 0) shift(step.backward_end_s);
      }
    }
    if (r < records.buckets.size()) {
      for (launch::BucketRecord& bucket : records.buckets[r]) {
        BucketTimes& times = bucket.times;
        shift(times.ready_s, times.start_s, times.arrived_s, times.end_s);
      }
    }
    if (r < records.trace.size()) {
      for (launch::TraceRecord& record : records.trace[r]) shift(record.begin_s, record.end_s);
    }
  }
}

std::vector<report::HostClock> HostClocks::rows() const {
  using report::Figure;
  std::vector<report::HostClock> rows;
  if (!are_several()) return rows;
  for (const Clock& clock : clocks_) {
    report::HostClock& row = rows.emplace_back();
    row.host = clock.host;
    const bool first = &clock == clocks_.data();
    if (clock.readings.empty() && !first) {
      row.offset_s = row.bound_s = row.drift_s = Figure::missing(kNotMeasured);
      continue;
    }
    row.offset_s = Figure::of(first ? 0 : clock.readings.front().offset_s);
    row.bound_s = Figure::of(bound_of(clock));
    if (!first && clock.readings.size() < 2) {
      row.drift_s = Figure::missing(kNoEnd);
    } else {
      row.drift_s =
          Figure::of(first ? 0 : clock.readings.back().offset_s - clock.readings.front().offset_s);
    }
  }
  return rows;
}

double fill_arrivals(RankRecords& records, std::size_t workers, double clock_bound_s,
                     bool collectives) {
  if (std::ranges::none_of(records.buckets | std::views::join, is_untold)) return 0;
  const Entrances entrances = entrances_of(records);
  const bool comparable = std::isfinite(clock_bound_s) && collectives;
  for (std::size_t r = 0; r < workers; ++r) {
    fill_rank(entrances, workers, comparable, records.buckets[r], records.steps[r]);
  }
  return comparable ? clock_bound_s : 0;
}

RunRecords read_run_records(const TrainingJob& job, const launch::RankChannels& channels) {
  RunRecords all;
  const int workers = job.cell.servers > 0 ? job.cell.world_size : channels.layout().ranks;
  const auto copied = [](const auto& span) { return std::vector(span.begin(), span.end()); };
  for (int r = 0; r < channels.layout().ranks; ++r) {
    all.results.push_back(decoded_rank_result(channels.result(r)));
    all.trace.push_back(copied(channels.trace(r)));
    if (r >= workers) continue;
    all.steps.push_back(copied(channels.steps(r)));
    all.buckets.push_back(copied(channels.buckets(r)));
  }
  all.clocks = HostClocks(all);
  all.clocks.correct(all);
  all.wait_bound_s = fill_arrivals(all, all.steps.size(), all.clocks.bound_s(),
                                   !strategy_traits(job.cell.strategy).has_servers);
  return all;
}

}  // namespace ddpbench::bench
