// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
// The supervisor of `ddpbench comm`: starts one world after the other in fresh processes, makes
// rows of the report from what the ranks left in their channels, and writes it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "bench/comm/collective_rank.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_records.h"
#include "parallel/comm_backends.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

using report::Figure;

// What the ranks of one world left.
struct Collected {
  const CommJob& job;
  std::vector<CommRankResult> results;                  // [rank]
  std::vector<std::vector<std::vector<double>>> times;  // [row][rank][iteration]
  std::vector<report::BandwidthRow> bandwidth;          // what was measured of this world
  std::string unmeasured;                               // the reason for a row without figures
};

// Adds the bandwidth of all cores, as far as all have measured.
void add_bandwidth(Collected& all) {
  std::size_t complete = SIZE_MAX;
  for (const CommRankResult& rank : all.results) {
    complete = std::min(complete, rank.bandwidth.size());
  }
  for (std::size_t i = 0; i < complete; ++i) {
    const BandwidthSample& first = all.results[0].bandwidth[i];
    report::BandwidthRow& row = all.bandwidth.emplace_back();
    row.working_set_bytes = first.working_set_bytes;
    row.cores = first.all_cores ? all.job.ranks : 1;
    double reduce_gb_per_s = 0;
    for (const CommRankResult& rank : all.results) {
      row.copy_gb_per_s += rank.bandwidth[i].copy_gb_per_s;
      reduce_gb_per_s += rank.bandwidth[i].reduce_gb_per_s;
    }
    row.reduce_gb_per_s = Figure::of(reduce_gb_per_s);
  }
}

Collected collect(const CommJob& job, const launch::RankChannels& channels) {
  const auto ranks = static_cast<std::size_t>(job.ranks);
  Collected all{job, {}, {job.rows.size(), std::vector<std::vector<double>>(ranks)}, {}, {}};
  for (std::size_t r = 0; r < ranks; ++r) {
    const int rank = static_cast<int>(r);
    all.results.push_back(decoded_comm_rank_result(channels.result(rank)));
    for (const launch::StepRecord& record : channels.steps(rank)) {
      if (record.epoch >= job.rows.size()) continue;  // the rank has damaged its channel
      all.times[record.epoch][r].push_back(record.end_s - record.begin_s);
    }
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
  const auto distance = [&](const report::BandwidthRow& measured) {
    return measured.cores == all.job.ranks
               ? std::abs(std::log2(static_cast<double>(measured.working_set_bytes) / working_set))
               : INFINITY;
  };
  const auto best = std::ranges::min_element(all.bandwidth, {}, distance);
  return best == all.bandwidth.end() || std::isinf(distance(*best)) ? nullptr : &*best;
}

// What bounds the row's bus bandwidth, or why nothing does.
Figure bound_of(const Collected& all, report::CollectiveRow& row) {
  if (const std::string reason = all.job.no_bound_reason(); !reason.empty()) {
    return Figure::missing(reason);
  }
  const report::BandwidthRow* const memory = memory_of(all, row);
  if (memory == nullptr) return Figure::missing("the run ended before memory was measured");
  const double reduce_gb_per_s = memory->reduce_gb_per_s.value.value_or(0);
  row.bound = memory->copy_gb_per_s >= reduce_gb_per_s ? "memory_copy" : "memory_reduce";
  return Figure::of(
      report::bound_bus_bandwidth_gb_per_s(row.operation, row.ranks, static_cast<double>(row.bytes),
                                           std::max(memory->copy_gb_per_s, reduce_gb_per_s)));
}

void fill_bandwidths(const Collected& all, report::CollectiveRow& row) {
  Figure &bus = row.busbw_gb_per_s, &bound = row.bound_busbw_gb_per_s;
  if (row.bytes == 0) {
    row.algbw_gb_per_s = bus = bound = row.share_of_bound =
        Figure::missing("a barrier moves no data");
    return;
  }
  row.algbw_gb_per_s = bus = Figure::missing(all.unmeasured);
  if (row.time_s) {
    const double algbw =
        report::algorithm_bandwidth_gb_per_s(static_cast<double>(row.bytes), row.time_s->median);
    row.algbw_gb_per_s = Figure::of(algbw);
    bus = Figure::of(algbw * report::bus_bandwidth_factor(row.operation, row.ranks));
  }
  bound = bound_of(all, row);
  row.share_of_bound = bound.value && bus.value
                           ? Figure::of(*bus.value / *bound.value)
                           : Figure::missing(bound.value ? bus.reason : bound.reason);
}

// Sets the wrong elements of all ranks once all have checked the row, and the late iterations of
// the rank that had most.
void fill_findings(const Collected& all, std::size_t index, report::CollectiveRow& row) {
  std::uint64_t wrong = 0;
  bool checked = true;
  for (const CommRankResult& rank : all.results) {
    checked = checked && rank.wrong.size() > index;
    if (checked) wrong += rank.wrong[index];
    if (rank.late.size() > index) {
      row.late_iterations = std::max(row.late_iterations, rank.late[index]);
    }
  }
  if (checked) {
    row.wrong = wrong;
  } else {
    row.wrong_reason =
        row.iterations > 0 ? "the run ended before the results were checked" : all.unmeasured;
  }
}

// What ran is told of all rows together. auto chooses for each.
std::string all_reduce_of(const Collected& all, const CommRow& row) {
  const CommJob& job = all.job;
  const std::string& ran = all.results.front().all_reduce;
  if (row.operation != "all_reduce") return "";
  if (job.asked_all_reduce != "auto") return ran.empty() ? job.all_reduce : ran;
  return all_reduce_name(comm_backend(job.devices.backend), "auto", job.ranks, job.bytes(row));
}

report::CollectiveRow make_row(const Collected& all, std::size_t index) {
  const CommJob& job = all.job;
  const CommRow& asked = job.rows[index];
  const CollectiveCase& collective = *find_collective(asked.operation);
  report::CollectiveRow row;
  row.operation = asked.operation;
  row.backend = job.devices.backend;
  row.all_reduce = all_reduce_of(all, asked);
  row.emulated_link = job.emulated_link;
  row.device = job.devices.device;
  row.device_model = all.results.front().model;
  row.gpus = job.devices.gpus;
  row.ranks = job.ranks;
  row.mode = job.threads ? "thread" : "process";
  row.bytes = job.bytes(asked);
  row.count = collective.in_parts ? asked.count / static_cast<std::size_t>(row.ranks) : asked.count;
  row.data_type = to_string(job.type);
  if (collective.reduces) row.reduction = to_string(job.reduction);
  row.in_place = collective.in_place;
  row.oversubscribed = job.devices.oversubscribed;
  row.warmup = job.warmup;
  const std::vector<double> slowest = report::slowest_rank_per_step(all.times[index]);
  row.iterations = static_cast<std::int64_t>(slowest.size());
  if (!slowest.empty()) row.time_s = report::summarize(slowest);
  fill_findings(all, index, row);
  fill_bandwidths(all, row);
  return row;
}

void show_row(const CommJob& job, const launch::RankStatus& status, StatusLine& line) {
  if (status.epoch >= job.rows.size()) return;
  const CommRow& row = job.rows[status.epoch];
  line.draw(status.state == launch::RankState::training
                ? fmt::format("row {} of {}: {} of {} bytes", status.epoch + 1, job.rows.size(),
                              row.operation, job.bytes(row))
                : "measuring the memory's bandwidth");
}

launch::SuperviseResult launch_world(const CommJob& job, launch::RankChannels& channels, bool quiet,
                                     RunHosts* hosts) {
  const bool redraws = Progress::style_for_stdout(quiet) == Progress::Style::redraw;
  StatusLine line;
  const HostJob processes = host_job(job);
  if (hosts != nullptr) hosts->prepare(processes);
  launch::SuperviseResult result = launch_job(
      processes, job.threads ? job.ranks : 1, {}, channels,
      [&](const launch::RankChannels& all) {
        if (redraws) show_row(job, all.status(0), line);
      },
      hosts);
  if (redraws) line.clear();
  return result;
}

// Measures one world and adds it to `report`. Returns its exit code.
int run_world(const CommJob& job, bool quiet, RunHosts* hosts, report::Report& report,
              report::Status& status) {
  if (!quiet) say("{}\n", title_of(job));
  std::fflush(stdout);
  std::optional<report::ErrorInfo> error;
  launch::SuperviseResult result;
  auto channels = launch::RankChannels::create(channel_layout(job));
  int exit_code = 0;
  try {
    result = launch_world(job, channels, quiet, hosts);
    if (result.failure) exit_code = failure_exit_code(result.failure->error);
  } catch (const Interrupted&) {
    result.interrupted = true;
  } catch (const Error& failed) {  // a world that cannot be started fails among the others
    result.failure.emplace().error = {failed.kind(), failed.what()};
    exit_code = failed.exit_code();
  }
  status = collect_comm(job, channels, result, report, error);
  if (!error) return exit_code;
  say_error("ddpbench: {} ranks: {}\n", job.ranks, error->message);
  if (!report.error) report.error = std::move(error);
  return result.failure ? exit_code : kWrongResultExitCode;
}

}  // namespace

report::Status collect_comm(const CommJob& job, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error) {
  Collected all = collect(job, channels);
  all.unmeasured = "no timed iteration was finished";
  if (result.failure && !result.interrupted) {
    error = failure_info(*result.failure);
    all.unmeasured += ": " + error->message;
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
    error = report::ErrorInfo{
        .kind = "verification",
        .message =
            fmt::format("{} elements of the results are wrong; column 'wrong' says where", wrong)};
  }
  return error ? report::Status::failed : report::Status::ok;
}

int run_comm(Options options, std::vector<std::string> arguments, RunHosts* hosts) {
  HostDevices host = find_devices(options.device);
  if (hosts != nullptr) hosts->find_devices(host, 0);
  host.available_bytes = memory_limit(read_host_limits()).bytes;
  const std::string device_note = resolve_comm(options, host, hosts);
  const std::vector<CommJob> worlds = make_comm_jobs(options, host, hosts);
  options.backend =
      common_backend(mapped(worlds, [](const CommJob& world) { return world.devices.backend; }));
  ReportOutput file(options);
  report::Report report = begin_report(options, std::move(arguments));
  report.config_json = comm_config(options).dump();
  if (hosts != nullptr) hosts->describe(report.environment);
  if (options.device == "cuda") add_gpus(report.environment, host);
  if (!device_note.empty()) say("{}\n", device_note);
  catch_interrupts();
  file.reserve(report, options);
  int exit_code = 0;
  for (const CommJob& world : worlds) {
    report::Status status = report::Status::ok;
    const int code = run_world(world, options.quiet, hosts, report, status);
    if (exit_code == 0) exit_code = code;
    if (report.status != report::Status::failed) report.status = status;
    if (status != report::Status::interrupted) {
      file.save_so_far(report, options);
      continue;
    }
    report.status = status;
    exit_code = 130;
    break;
  }
  finish_report(report, {}, options, file);
  return exit_code;
}

}  // namespace ddpbench::bench
