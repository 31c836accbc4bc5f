// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "bench/comm/comm_collector.h"
#include "bench/comm/comm_rank.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_collector.h"

namespace ddpbench::bench {
namespace {

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

Stops stops_of(const launch::SuperviseResult& result, const launch::RankChannels& channels) {
  std::vector<std::span<const launch::StepRecord>> iterations;
  for (int rank = 0; rank < channels.layout().ranks; ++rank) {
    iterations.push_back(channels.steps(rank));
  }
  return tell_stops_apart(result.pauses, iterations);
}

}  // namespace

CommSession::CommSession(const CommOptions& options, const HostDevices& host, const Options& output,
                         std::vector<std::string> arguments,
                         const std::map<std::string, std::string>& variables)
    : output_(output) {
  worlds_ = make_comm_jobs(options, host);
  file_ = ReportOutput(output_);
  report_ = begin_report(output_, std::move(arguments));
  report_.environment.variables.insert(variables.begin(), variables.end());
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
    launch::SuperviseResult result = launch_world(job, channels, output_.quiet);
    const Stops stops = stops_of(result, channels);
    result.pauses = stops.of_job;
    const report::Status status = collect_comm(job, channels, result, report_, error);
    interrupted_ = status == report::Status::interrupted;
    if (!stops.of_job.empty()) {
      say("note: the job was stopped meanwhile, which counts for no iteration\n");
    }
    if (!stops.of_supervisor.empty()) {
      say("note: the supervising process alone was stopped meanwhile; its ranks went on\n");
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
