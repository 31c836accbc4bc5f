// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "bench/comm/collective_case.h"
#include "bench/host/environment_capture.h"
#include "bench/run/run_collector.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/collective_metrics.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

using report::Figure;
constexpr const char* kNotChecked = "the run ended before the results were checked";
constexpr const char* kNoIteration = "no timed iteration was finished";
constexpr const char* kNoData = "a barrier moves no data";
constexpr const char* kNoMemory = "the run ended before memory was measured";

struct Collected {
  const CommJob& job;
  std::vector<CommRankResult> results;                  // [rank]
  std::vector<std::vector<std::vector<double>>> times;  // [row][rank][iteration]
  std::vector<report::BandwidthRow> bandwidth;          // what was measured of this world
  std::map<std::size_t, std::string> not_measured;      // [working set]: the reason
  std::string failure;                                  // why the world ended early, if it did
};

// The reason for a row without figures.
std::string unmeasured(const Collected& all) {
  return all.failure.empty() ? kNoIteration : fmt::format("{}: {}", kNoIteration, all.failure);
}

// Adds the bandwidth of all cores, or of the GPU that the ranks share, as far as all have measured.
void add_bandwidth(Collected& all) {
  const std::vector<CommRankResult>& results = all.results;
  std::size_t complete = results.empty() ? 0 : results[0].bandwidth.size();
  for (const CommRankResult& rank : results) {
    complete = std::min(complete, rank.bandwidth.size());
  }
  for (std::size_t i = 0; i < complete; ++i) {
    const BandwidthSample& first = results[0].bandwidth[i];
    if (!first.missing.empty()) {
      all.not_measured[first.working_set_bytes] = first.missing;
      continue;
    }
    report::BandwidthRow row;
    row.working_set_bytes = first.working_set_bytes;
    double reduce_gb_per_s = 0;
    for (const CommRankResult& rank : results) {
      row.copy_gb_per_s += rank.bandwidth[i].copy_gb_per_s;
      reduce_gb_per_s += rank.bandwidth[i].reduce_gb_per_s;
    }
    if (all.job.on_gpus()) {
      row.gpu = all.job.devices.gpus.front();
      row.reduce_gb_per_s = Figure::missing("a GPU has copies of its own, but no reductions");
    } else {
      row.cores = first.all_cores ? static_cast<int>(results.size()) : 1;
      row.reduce_gb_per_s = Figure::of(reduce_gb_per_s);
    }
    all.bandwidth.push_back(row);
  }
}

using Iteration = std::pair<std::uint32_t, std::size_t>;  // row, and number within the row

// Calls `visit` with each iteration that a rank has recorded.
template <typename Visit>
void visit_iterations(const CommJob& job, const launch::RankChannels& channels, int rank,
                      Visit&& visit) {
  std::vector<std::size_t> next(job.rows.size(), 0);
  for (const launch::StepRecord& record : channels.steps(rank)) {
    if (record.epoch >= next.size()) continue;  // the rank has damaged its channel
    visit(Iteration{record.epoch, next[record.epoch]++}, record);
  }
}

// The iterations during which the job was stopped, as a whole.
std::set<Iteration> stopped_iterations(const CommJob& job, const launch::RankChannels& channels,
                                       const std::vector<launch::Pause>& pauses) {
  std::set<Iteration> stopped;
  for (int r = 0; r < job.ranks && !pauses.empty(); ++r) {
    visit_iterations(job, channels, r, [&](const Iteration& at, const launch::StepRecord& record) {
      if (stopped_time(pauses, record.begin_s, record.end_s) > 0) stopped.insert(at);
    });
  }
  return stopped;
}

Collected collect(const CommJob& job, const launch::RankChannels& channels,
                  const std::vector<launch::Pause>& pauses) {
  const auto ranks = static_cast<std::size_t>(job.ranks);
  Collected all{job, {}, {job.rows.size(), std::vector<std::vector<double>>(ranks)}, {}, {}, {}};
  const std::set<Iteration> stopped = stopped_iterations(job, channels, pauses);
  for (int r = 0; r < job.ranks; ++r) {
    all.results.push_back(decoded_comm_rank_result(channels.result(r)));
    visit_iterations(job, channels, r, [&](const Iteration& at, const launch::StepRecord& record) {
      if (stopped.contains(at)) return;
      all.times[at.first][static_cast<std::size_t>(r)].push_back(record.end_s - record.begin_s);
    });
  }
  add_bandwidth(all);
  return all;
}

// The bytes that one core touches, or the GPU that all ranks share.
double working_set_of(const Collected& all, const report::CollectiveRow& row) {
  const auto bytes = static_cast<double>(row.bytes);
  const double touched =
      report::collective_traffic(row.operation, row.ranks, bytes).footprint_bytes;
  return all.job.on_gpus() ? touched : touched / row.ranks;
}

// Returns the measurement on all cores, or on the GPU, whose working set is nearest, as a ratio, to
// the one of a row.
const report::BandwidthRow* nearest(const Collected& all, double working_set) {
  const report::BandwidthRow* best = nullptr;
  const auto distance = [working_set](const report::BandwidthRow& row) {
    return std::abs(std::log2(static_cast<double>(row.working_set_bytes) / working_set));
  };
  for (const report::BandwidthRow& row : all.bandwidth) {
    if (row.cores && row.cores != all.job.ranks) continue;
    if (best == nullptr || distance(row) < distance(*best)) best = &row;
  }
  return best;
}

// The bandwidth that applies to a row, or the reason why there is none.
struct Memory {
  const report::BandwidthRow* row = nullptr;
  std::string reason;
};
Memory memory_of(const Collected& all, const report::CollectiveRow& row) {
  const double working_set = working_set_of(all, row);
  const auto none = all.not_measured.find(static_cast<std::size_t>(working_set));
  if (none != all.not_measured.end()) return {nullptr, none->second};
  const report::BandwidthRow* const measured = nearest(all, working_set);
  return {measured, measured == nullptr ? kNoMemory : ""};
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
  if (const std::string reason = all.job.no_bound_reason(); !reason.empty()) {
    return set_bound(row, Figure::missing(reason));
  }
  const auto [memory, missing] = memory_of(all, row);
  if (memory == nullptr) return set_bound(row, Figure::missing(missing));
  const double reduce_gb_per_s = memory->reduce_gb_per_s.value.value_or(0);
  const bool copies = memory->copy_gb_per_s >= reduce_gb_per_s;
  const double fastest = copies ? memory->copy_gb_per_s : reduce_gb_per_s;
  row.bound = copies ? "memory_copy" : "memory_reduce";
  set_bound(row, Figure::of(report::bound_bus_bandwidth_gb_per_s(
                     row.operation, row.ranks, static_cast<double>(row.bytes), fastest)));
}

// Some backends' reads and writes are known between ranks that share one GPU.
void fill_counted(const Collected& all, report::CollectiveRow& row) {
  const CommBackend* const backend = find_comm_backend(row.backend);
  if (!all.job.on_one_gpu() || backend == nullptr || !backend->counts_memory_bytes) return;
  if (row.bytes == 0) {
    row.counted_bytes = row.counted_gb_per_s = row.share_of_copy = Figure::missing(kNoData);
    return;
  }
  const auto bytes = static_cast<double>(row.bytes);
  const double counted =
      std::round(row.all_reduce == "ring" ? report::ipc_ring_all_reduce_bytes(row.ranks, bytes)
                                          : report::ipc_bytes(row.operation, row.ranks, bytes));
  row.counted_bytes = Figure::of(counted);
  if (!row.time_s) {
    row.counted_gb_per_s = row.share_of_copy = Figure::missing(unmeasured(all));
    return;
  }
  const double moved = report::counted_bandwidth_gb_per_s(counted, row.time_s->median);
  row.counted_gb_per_s = Figure::of(moved);
  const auto [memory, missing] = memory_of(all, row);
  row.share_of_copy =
      memory == nullptr ? Figure::missing(missing)
                        : Figure::of(report::share_of_copy_bandwidth(moved, memory->copy_gb_per_s));
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

// Returns nothing until all ranks have checked the row.
std::optional<std::uint64_t> wrong_elements(const Collected& all, std::size_t row) {
  std::uint64_t sum = 0;
  for (const CommRankResult& rank : all.results) {
    if (rank.wrong.size() <= row) return std::nullopt;
    sum += rank.wrong[row];
  }
  return sum;
}

// The late iterations of the rank that had most.
std::int64_t late_iterations(const Collected& all, std::size_t row) {
  std::int64_t most = 0;
  for (const CommRankResult& rank : all.results) {
    if (rank.late.size() > row) most = std::max(most, rank.late[row]);
  }
  return most;
}

report::CollectiveRow make_row(const Collected& all, std::size_t index) {
  const CommRow& asked = all.job.rows[index];
  const CollectiveCase& collective = *find_collective(asked.operation);
  report::CollectiveRow row;
  row.operation = asked.operation;
  row.backend = all.job.devices.backend;
  if (asked.operation == "all_reduce") {
    // What ran is told of all rows together. auto chooses for each.
    const std::string& ran = all.results.front().all_reduce;
    const CommJob& job = all.job;
    row.all_reduce =
        job.asked_all_reduce == "auto"
            ? all_reduce_name(comm_backend(row.backend), "auto", job.ranks, job.bytes(asked))
        : ran.empty() ? job.all_reduce
                      : ran;
  }
  row.device = all.job.devices.device;
  row.device_model = all.results.front().model;
  row.gpus = all.job.devices.gpus;
  row.ranks = all.job.ranks;
  row.mode = all.job.threads ? "thread" : "process";
  row.bytes = all.job.bytes(asked);
  row.count = collective.in_parts ? asked.count / static_cast<std::size_t>(row.ranks) : asked.count;
  row.data_type = to_string(all.job.type);
  if (collective.reduces) row.reduction = reduction_word(all.job.reduction);
  row.in_place = collective.in_place;
  row.oversubscribed = all.job.devices.oversubscribed;
  row.warmup = all.job.warmup;
  const std::vector<double> slowest = report::slowest_rank_per_step(all.times[index]);
  row.iterations = static_cast<std::int64_t>(slowest.size());
  row.late_iterations = late_iterations(all, index);
  if (!slowest.empty()) row.time_s = report::summarize(slowest);
  if (const auto wrong = wrong_elements(all, index)) {
    row.wrong = wrong;
  } else {
    row.wrong_reason = row.iterations > 0 ? kNotChecked : unmeasured(all);
  }
  fill_bandwidths(all, row);
  fill_bound(all, row);
  fill_counted(all, row);
  return row;
}

}  // namespace

report::Status collect_comm(const CommJob& job, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error) {
  Collected all = collect(job, channels, result.pauses);
  if (result.failure && !result.interrupted) {
    error = failure_info(*result.failure);
    if (error->rank) error->host = host_name();
    all.failure = error->message;
  }
  report.memory_bandwidth.insert(report.memory_bandwidth.end(), all.bandwidth.begin(),
                                 all.bandwidth.end());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < job.rows.size(); ++i) {
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

void keep_rows_without_figures(const CommJob& job, const std::string& failure,
                               report::Report& report) {
  const auto ranks = static_cast<std::size_t>(job.ranks);
  const Collected nothing{job,
                          std::vector<CommRankResult>(ranks),
                          {job.rows.size(), std::vector<std::vector<double>>(ranks)},
                          {},
                          {},
                          failure};
  for (std::size_t i = 0; i < job.rows.size(); ++i) {
    report.collectives.push_back(make_row(nothing, i));
  }
}

}  // namespace ddpbench::bench
