// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/comm/collective_case.h"
#include "bench/environment_capture.h"
#include "bench/run_collector.h"
#include "reports/collectives/collective_metrics.h"
#include "reports/metrics.h"

namespace ddpbench::bench {
namespace {

using report::Figure;
constexpr const char* kNotChecked = "the run ended before the results were checked";
constexpr const char* kNoIteration = "no timed iteration was finished";
constexpr const char* kNoData = "a barrier moves no data";

struct Collected {
  const CommSpec& spec;
  std::vector<CommRankResult> results;                  // [rank]
  std::vector<std::vector<std::vector<double>>> times;  // [row][rank][iteration]
  std::vector<report::BandwidthRow> bandwidth;          // of this world
  std::string failure;                                  // why the world ended early; empty: no
};

// Of a row that has no figures.
std::string unmeasured(const Collected& all) {
  return all.failure.empty() ? kNoIteration : fmt::format("{}: {}", kNoIteration, all.failure);
}

// The ranks' cores together, as far as all have measured.
std::vector<report::BandwidthRow> bandwidth_rows(const std::vector<CommRankResult>& results) {
  std::size_t complete = results.empty() ? 0 : results[0].bandwidth.size();
  for (const CommRankResult& rank : results) {
    complete = std::min(complete, rank.bandwidth.size());
  }
  std::vector<report::BandwidthRow> rows;
  for (std::size_t i = 0; i < complete; ++i) {
    const BandwidthSample& first = results[0].bandwidth[i];
    report::BandwidthRow row;
    row.working_set_bytes = first.working_set_bytes;
    row.cores = first.all_cores ? static_cast<int>(results.size()) : 1;
    for (const CommRankResult& rank : results) {
      row.copy_gb_per_s += rank.bandwidth[i].copy_gb_per_s;
      row.reduce_gb_per_s += rank.bandwidth[i].reduce_gb_per_s;
    }
    rows.push_back(row);
  }
  return rows;
}

Collected collect(const CommSpec& spec, const launch::RankChannels& channels) {
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  Collected all{spec, {}, {spec.rows.size(), std::vector<std::vector<double>>(ranks)}, {}, {}};
  for (int r = 0; r < spec.ranks; ++r) {
    all.results.push_back(comm_rank_result_from_text(channels.result(r)));
    for (const launch::StepRecord& record : channels.steps(r)) {
      all.times.at(record.epoch)[static_cast<std::size_t>(r)].push_back(record.end_s -
                                                                        record.begin_s);
    }
  }
  all.bandwidth = bandwidth_rows(all.results);
  return all;
}

// What was measured on all cores with the working set that is nearest, in powers of two.
const report::BandwidthRow* nearest(const Collected& all, double working_set) {
  const report::BandwidthRow* best = nullptr;
  const auto distance = [working_set](const report::BandwidthRow& row) {
    return std::abs(std::log2(static_cast<double>(row.working_set_bytes) / working_set));
  };
  for (const report::BandwidthRow& row : all.bandwidth) {
    if (row.cores != all.spec.ranks) continue;
    if (best == nullptr || distance(row) < distance(*best)) best = &row;
  }
  return best;
}

void set_bound(report::CollectiveRow& row, const Figure& figure) {
  row.bound_busbw_gb_per_s = figure;
  row.share_of_bound =
      figure.value && row.busbw_gb_per_s.value
          ? Figure::of(*row.busbw_gb_per_s.value / *figure.value)
          : Figure::missing(figure.value ? row.busbw_gb_per_s.reason : figure.reason);
}

void fill_bound(const Collected& all, report::CollectiveRow& row) {
  if (row.bytes == 0) return set_bound(row, Figure::missing(kNoData));
  if (all.spec.oversubscribed) {
    return set_bound(row, Figure::missing("oversubscribed: more ranks than cores"));
  }
  const auto bytes = static_cast<double>(row.bytes);
  const auto traffic = report::collective_traffic(row.operation, row.ranks, bytes);
  const auto* memory = nearest(all, traffic.footprint_bytes / row.ranks);
  if (memory == nullptr) {
    return set_bound(row, Figure::missing("the run ended before memory was measured"));
  }
  const bool copies = memory->copy_gb_per_s >= memory->reduce_gb_per_s;
  const double fastest = copies ? memory->copy_gb_per_s : memory->reduce_gb_per_s;
  row.bound = copies ? "memory_copy" : "memory_reduce";
  set_bound(row, Figure::of(report::bound_bus_bandwidth_gb_per_s(row.operation, row.ranks, bytes,
                                                                 fastest)));
}

void fill_bandwidths(const Collected& all, report::CollectiveRow& row) {
  if (row.bytes == 0) {
    row.algbw_gb_per_s = row.busbw_gb_per_s = Figure::missing(kNoData);
  } else if (!row.time_s) {
    row.algbw_gb_per_s = row.busbw_gb_per_s = Figure::missing(unmeasured(all));
  } else {
    const double algbw =
        report::algorithm_bandwidth_gb_per_s(static_cast<double>(row.bytes), row.time_s->median);
    row.algbw_gb_per_s = Figure::of(algbw);
    row.busbw_gb_per_s = Figure::of(algbw * report::bus_bandwidth_factor(row.operation, row.ranks));
  }
}

// Empty until all ranks have checked the row.
std::optional<std::uint64_t> wrong_elements(const Collected& all, std::size_t row) {
  std::uint64_t sum = 0;
  for (const CommRankResult& rank : all.results) {
    if (rank.wrong.size() <= row) return std::nullopt;
    sum += rank.wrong[row];
  }
  return sum;
}

report::CollectiveRow make_row(const Collected& all, std::size_t index) {
  const CommRow& asked = all.spec.rows[index];
  const CollectiveCase& collective = *find_collective(asked.operation);
  report::CollectiveRow row;
  row.operation = asked.operation;
  row.backend = "ring";
  row.ranks = all.spec.ranks;
  row.mode = all.spec.threads ? "thread" : "process";
  row.bytes = all.spec.bytes(asked);
  row.count = collective.in_parts ? asked.count / static_cast<std::size_t>(row.ranks) : asked.count;
  row.data_type = to_string(all.spec.type);
  if (collective.reduces) row.reduction = reduction_word(all.spec.reduction);
  row.in_place = collective.in_place;
  row.oversubscribed = all.spec.oversubscribed;
  row.warmup = all.spec.warmup;
  const std::vector<double> slowest = report::slowest_rank_per_step(all.times[index]);
  row.iterations = static_cast<std::int64_t>(slowest.size());
  if (!slowest.empty()) row.time_s = report::summarize(slowest);
  if (const auto wrong = wrong_elements(all, index)) {
    row.wrong = wrong;
  } else {
    row.wrong_reason = row.iterations > 0 ? kNotChecked : unmeasured(all);
  }
  fill_bandwidths(all, row);
  fill_bound(all, row);
  return row;
}

}  // namespace

report::Status collect_comm(const CommSpec& spec, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error) {
  Collected all = collect(spec, channels);
  if (result.failure && !result.interrupted) {
    error = failure_info(*result.failure);
    if (error->rank) error->host = host_name();
    all.failure = error->message;
  }
  report.memory_bandwidth.insert(report.memory_bandwidth.end(), all.bandwidth.begin(),
                                 all.bandwidth.end());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < spec.rows.size(); ++i) {
    report::CollectiveRow row = make_row(all, i);
    wrong += row.wrong.value_or(0);
    if (row.iterations > 0 || error) report.collectives.push_back(std::move(row));
  }
  if (result.interrupted) return report::Status::interrupted;
  if (!error && wrong > 0) {
    error.emplace();
    error->kind = "verification";
    error->message =
        fmt::format("{} elements of the results are wrong; column 'wrong' says where", wrong);
  }
  return error ? report::Status::failed : report::Status::ok;
}

void keep_rows_without_figures(const CommSpec& spec, const std::string& failure,
                               report::Report& report) {
  const auto ranks = static_cast<std::size_t>(spec.ranks);
  const Collected nothing{spec,
                          std::vector<CommRankResult>(ranks),
                          {spec.rows.size(), std::vector<std::vector<double>>(ranks)},
                          {},
                          failure};
  for (std::size_t i = 0; i < spec.rows.size(); ++i) {
    report.collectives.push_back(make_row(nothing, i));
  }
}

}  // namespace ddpbench::bench
