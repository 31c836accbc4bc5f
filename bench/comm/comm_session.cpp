// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "bench/comm/collective_case.h"
#include "bench/comm/comm_rank.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_collector.h"
#include "parallel/comm_backends.h"
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
  std::string failure;                                  // why the world ended early, if it did
};

// The reason for a row without figures.
std::string unmeasured(const Collected& all) {
  return all.failure.empty() ? kNoIteration : fmt::format("{}: {}", kNoIteration, all.failure);
}

// Adds the bandwidth of all cores, as far as all have measured.
void add_bandwidth(Collected& all) {
  const std::vector<CommRankResult>& results = all.results;
  std::size_t complete = results.empty() ? 0 : results[0].bandwidth.size();
  for (const CommRankResult& rank : results) {
    complete = std::min(complete, rank.bandwidth.size());
  }
  for (std::size_t i = 0; i < complete; ++i) {
    const BandwidthSample& first = results[0].bandwidth[i];
    report::BandwidthRow row;
    row.working_set_bytes = first.working_set_bytes;
    double reduce_gb_per_s = 0;
    for (const CommRankResult& rank : results) {
      row.copy_gb_per_s += rank.bandwidth[i].copy_gb_per_s;
      reduce_gb_per_s += rank.bandwidth[i].reduce_gb_per_s;
    }
    row.cores = first.all_cores ? static_cast<int>(results.size()) : 1;
    row.reduce_gb_per_s = Figure::of(reduce_gb_per_s);
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
  Collected all{job, {}, {job.rows.size(), std::vector<std::vector<double>>(ranks)}, {}, {}};
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

// The measurement on all cores whose working set is nearest, as a ratio, to what one core touches
// in the row; null where there is none.
const report::BandwidthRow* memory_of(const Collected& all, const report::CollectiveRow& row) {
  const auto bytes = static_cast<double>(row.bytes);
  const double working_set =
      report::collective_traffic(row.operation, row.ranks, bytes).footprint_bytes / row.ranks;
  const report::BandwidthRow* best = nullptr;
  const auto distance = [working_set](const report::BandwidthRow& measured) {
    return std::abs(std::log2(static_cast<double>(measured.working_set_bytes) / working_set));
  };
  for (const report::BandwidthRow& measured : all.bandwidth) {
    if (measured.cores != all.job.ranks) continue;
    if (best == nullptr || distance(measured) < distance(*best)) best = &measured;
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
  if (const std::string reason = all.job.no_bound_reason(); !reason.empty()) {
    return set_bound(row, Figure::missing(reason));
  }
  const report::BandwidthRow* const memory = memory_of(all, row);
  if (memory == nullptr) return set_bound(row, Figure::missing(kNoMemory));
  const double reduce_gb_per_s = memory->reduce_gb_per_s.value.value_or(0);
  const bool copies = memory->copy_gb_per_s >= reduce_gb_per_s;
  const double fastest = copies ? memory->copy_gb_per_s : reduce_gb_per_s;
  row.bound = copies ? "memory_copy" : "memory_reduce";
  set_bound(row, Figure::of(report::bound_bus_bandwidth_gb_per_s(
                     row.operation, row.ranks, static_cast<double>(row.bytes), fastest)));
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
  return row;
}

// Resolves --backend=auto where all worlds have the same backend.
CommOptions with_backend(CommOptions options, const std::vector<CommJob>& worlds) {
  std::vector<std::string> backends;
  for (const CommJob& world : worlds) backends.push_back(world.devices.backend);
  options.backend = common_backend(backends);
  return options;
}

// Shows which row is measured, on a line that redraws where stdout is a terminal.
class RowLine {
 public:
  RowLine(const CommJob& job, bool quiet)
      : job_(job), drawn_(Progress::style_for_stdout(quiet) == Progress::Style::redraw) {}
  void update(const launch::RankChannels& channels) {
    const launch::RankStatus status = channels.status(0);
    if (!drawn_ || status.epoch >= job_.rows.size()) return;
    const CommRow& row = job_.rows[status.epoch];
    const bool measuring = status.state == launch::RankState::training;
    line_.draw(measuring ? fmt::format("row {} of {}: {} of {} bytes", status.epoch + 1,
                                       job_.rows.size(), row.operation, job_.bytes(row))
                         : "measuring the memory's bandwidth");
  }
  void end() {
    if (drawn_) line_.clear();
  }

 private:
  const CommJob& job_;
  const bool drawn_;
  StatusLine line_;
};

launch::SuperviseResult launch_world(const CommJob& job, launch::RankChannels& channels,
                                     bool quiet) {
  RowLine line(job, quiet);
  launch::SuperviseOptions supervise;
  supervise.timeout_s = job.timeout_s;
  supervise.interrupted = interrupt_requested;
  supervise.progress = [&line](const launch::RankChannels& all) { line.update(all); };
  auto result = launch_job(kCommKind, to_json(job), {.ranks = job.threads ? 1 : job.ranks}, 1, {},
                           channels, supervise);
  line.end();
  return result;
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
                          failure};
  for (std::size_t i = 0; i < job.rows.size(); ++i) {
    report.collectives.push_back(make_row(nothing, i));
  }
}

CommSession::CommSession(const CommOptions& options, const HostDevices& host, const Options& output,
                         std::vector<std::string> arguments)
    : output_(output) {
  worlds_ = make_comm_jobs(options, host);
  file_ = ReportOutput(output_);
  report_ = begin_report(output_, std::move(arguments));
  report_.config_json = to_json(with_backend(options, worlds_)).dump();
  if (options.device == "cuda") add_gpus(report_.environment, host);
  if (!options.device_note.empty()) say("{}\n", options.device_note);
  for (const CommJob& world : worlds_) {
    if (const std::string note = rounding_note(options, world); !note.empty()) say("{}\n", note);
  }
}

int CommSession::run() {
  catch_interrupts();
  file_.reserve(report_, output_);
  int exit_code = 0;
  for (const CommJob& world : worlds_) {
    const int code = run_world(world);
    if (exit_code == 0) exit_code = code;
    if (interrupted_) break;
  }
  report_.status = interrupted_     ? report::Status::interrupted
                   : exit_code == 0 ? report::Status::ok
                                    : report::Status::failed;
  finish_report(report_, {}, output_, file_);
  return interrupted_ ? 130 : exit_code;
}

int CommSession::run_world(const CommJob& job) {
  if (!output_.quiet) say("{}\n", title_of(job));
  std::fflush(stdout);
  std::optional<report::ErrorInfo> error;
  int exit_code = 0;
  try {
    auto channels = launch::RankChannels::create(channel_layout(job));
    const launch::SuperviseResult result = launch_world(job, channels, output_.quiet);
    const report::Status status = collect_comm(job, channels, result, report_, error);
    interrupted_ = status == report::Status::interrupted;
    if (!result.pauses.empty()) {
      say("note: the job was stopped meanwhile, which counts for no iteration\n");
    }
    if (result.failure) exit_code = failure_exit_code(result.failure->error);
    if (error && !result.failure) exit_code = kWrongResultExitCode;
  } catch (const Error& failed) {  // a world that cannot be started fails among the others
    error.emplace();
    error->kind = failed.kind();
    error->message = failed.what();
    exit_code = failed.exit_code();
    keep_rows_without_figures(job, error->message, report_);
  }
  if (error) {
    say_error("ddpbench: {} ranks: {}\n", job.ranks, error->message);
    if (!report_.error) report_.error = std::move(error);
  }
  return exit_code;
}

}  // namespace ddpbench::bench
