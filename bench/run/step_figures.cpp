// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/step_figures.h"

#include <algorithm>

#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

using Ranks = std::span<const std::span<const launch::StepRecord>>;

// These phases exist for all strategies; a strategy adds its own.
bool is_common(Phase phase) {
  return phase == Phase::data_wait || phase == Phase::forward || phase == Phase::loss ||
         phase == Phase::backward || phase == Phase::optimizer;
}

// Takes a figure's maximum over ranks, then the median over the steps in which it was observed.
template <typename Value>
report::Figure median_of_slowest(Ranks ranks, Value value) {
  // Ranks may observe at different intervals: only steps that all ranks observed are compared.
  std::map<std::uint32_t, std::pair<std::size_t, double>> by_step;  // ranks, their maximum
  for (const auto& steps : ranks) {
    for (const auto& step : steps) {
      if (step.phases_observed == 0) continue;
      auto& [seen, maximum] = by_step[step.step];
      maximum = seen == 0 ? value(step) : std::max(maximum, value(step));
      ++seen;
    }
  }
  std::vector<double> slowest;
  for (const auto& [step, entry] : by_step) {
    if (entry.first == ranks.size()) slowest.push_back(entry.second);
  }
  if (slowest.empty()) return report::Figure::missing("phases were not observed");
  return report::Figure::of(report::median(slowest));
}

// The ratio is over all observed steps and ranks: a median of ratios would not weigh their times.
report::Figure overlap(Ranks ranks) {
  double total = 0;
  double overlapped = 0;
  for (const auto& steps : ranks) {
    for (const auto& step : steps) {
      total += step.comm_s;
      overlapped += step.comm_overlapped_s;
    }
  }
  return report::overlap_ratio(total, overlapped);
}

}  // namespace

std::map<std::string, report::Figure> phase_figures(Ranks ranks) {
  std::map<std::string, report::Figure> figures;
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    const auto phase = static_cast<Phase>(p);
    const auto figure =
        median_of_slowest(ranks, [p](const launch::StepRecord& step) { return step.phase_s[p]; });
    if (!is_common(phase) && (!figure.value || *figure.value == 0)) continue;
    figures[std::string(to_string(phase)) + "_s"] = figure;
  }
  const auto comm = median_of_slowest(ranks, [](const auto& step) { return step.comm_s; });
  figures["comm_s"] = comm;
  figures["comm_exposed_s"] = median_of_slowest(
      ranks, [](const auto& step) { return step.comm_s - step.comm_overlapped_s; });
  figures["comm_wait_s"] =
      median_of_slowest(ranks, [](const auto& step) { return step.comm_wait_s; });
  figures["comm_wait_exposed_s"] =
      median_of_slowest(ranks, [](const auto& step) { return step.comm_wait_exposed_s; });
  figures["overlap_ratio"] = comm.value ? overlap(ranks) : report::Figure::missing(comm.reason);
  return figures;
}

std::vector<double> step_times(std::span<const launch::StepRecord> steps) {
  std::vector<double> times;
  times.reserve(steps.size());
  for (const auto& step : steps) times.push_back(step.end_s - step.begin_s);
  return times;
}

std::vector<report::BucketRow> bucket_rows(std::span<const launch::BucketRecord> records,
                                           std::span<const launch::StepRecord> steps) {
  struct Samples {
    std::uint64_t bytes = 0;
    std::vector<double> ready, start, arrived, end;
  };
  std::map<int, Samples> buckets;
  for (const auto& record : records) {
    const auto step = std::ranges::lower_bound(steps, record.step, {}, &launch::StepRecord::step);
    if (step == steps.end() || step->step != record.step) continue;
    const double begin = step->begin_s;
    Samples& samples = buckets[static_cast<int>(record.times.bucket)];
    samples.bytes = record.times.bytes;
    samples.ready.push_back(record.times.ready_s - begin);
    samples.start.push_back(record.times.start_s - begin);
    samples.arrived.push_back(record.times.arrived_s - begin);
    samples.end.push_back(record.times.end_s - begin);
  }
  std::vector<report::BucketRow> rows;
  for (auto& [bucket, samples] : buckets) {
    rows.push_back({bucket, samples.bytes, report::median(samples.ready),
                    report::median(samples.start), report::median(samples.arrived),
                    report::median(samples.end)});
  }
  return rows;
}

}  // namespace ddpbench::bench
