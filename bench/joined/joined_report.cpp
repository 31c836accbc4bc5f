// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_report.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/joined/report_inbox.h"
#include "bench/run/launch_run.h"
#include "bench/run/run_collector.h"
#include "bench/run/run_trace.h"
#include "parallel/launch/rank_environment.h"
#include "reports/exports/trace.h"
#include "reports/json/report_json.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {
namespace {

// Before all have joined only this rank's host is known.
void clear_unknown_hosts(int own_rank, report::Report& report) {
  const auto clear = [own_rank](std::optional<report::ErrorInfo>& error) {
    if (error && error->rank != own_rank) error->host.clear();
  };
  clear(report.error);
  for (report::Run& run : report.runs) clear(run.error);
}

}  // namespace

PauseWatch::PauseWatch() : log_(steady_s()), thread_([this] { watch(); }) {}

PauseWatch::~PauseWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::vector<launch::Pause> PauseWatch::pauses() {
  const std::lock_guard lock(mutex_);
  log_.look(steady_s());
  return log_.pauses();
}

void PauseWatch::watch() {
  constexpr auto kEvery = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kEvery, [this] { return ending_; })) log_.look(steady_s());
}

void JoinedReport::choose_place(const Options& options, int host) {
  file_ = ReportOutput(own_files(options));
  if (reader_ != ReportReader::supervisor) return;
  const auto inbox = launch::environment_variable(kReportInboxVariable);
  ReportOutput::Deliver deliver;
  if (inbox) {
    deliver = [words = *inbox, host, reached = true](const std::string& text) mutable {
      reached = reached && send_to_inbox(words, {host, text});  // a host that is cut off tries once
      return reached;
    };
  }
  file_.stream_every_save(std::move(deliver));
}

// A supervisor writes the traces of all its runs into one file.
Options JoinedReport::own_files(Options options) const {
  if (reader_ == ReportReader::supervisor) options.trace_path.clear();
  return options;
}

bool JoinedReport::tells_failure(const std::string& path) {
  if (!is_file(path)) return false;  // a stream
  try {
    return report::read_report(path).error.has_value();
  } catch (const Error&) {
    return false;  // there is none, or none that can be read
  }
}

void JoinedReport::begin(const Options& options, const HostDevices* gpus, JoinedPeers& peers) {
  options_ = options;
  own_rank_ = peers.rank();
  hosts_ = peers.hosts();
  if (file_.absolute_path().empty()) {
    Options placed = options;
    const JoinedBoard* const board = peers.board();
    if (board != nullptr && !board->report_path().empty()) {
      placed.json_path = board->report_path();
      // Rank 0 may have ended between the making of the file and its saying so.
      if (board->is_reserved() || file_hash(placed.json_path) == board->reserved_hash()) {
        placed.force = true;
      }
    }
    choose_place(placed, hosts_.count() == 0 ? peers.rank() : hosts_.of(peers.rank()));
  }
  report_ = begin_report(options, arguments_);
  report_.started_at = started_at_;
  report_.environment.launcher = launcher_;
  if (gpus != nullptr) add_gpus(report_.environment, *gpus);
  complete_head(report_);
}

void JoinedReport::reserve(JoinedBoard* board) {
  ReportOutput::Announce announce;
  if (board != nullptr) {
    announce = [&](const std::string& path, std::uint64_t hash) {
      board->tell_report_path(path, hash);
    };
  }
  file_.reserve(report_, options_, announce);
  if (board == nullptr) return;
  board->tell_report_path(file_.absolute_path());
  board->mark_reserved();
}

void JoinedReport::fill(bool is_planned, launch::SuperviseResult result) {
  result.pauses = watch_.pauses();
  if (!is_planned) {
    report_.status = result.interrupted ? report::Status::interrupted : report::Status::failed;
    if (result.failure) report_.error = failure_info(*result.failure);
    return;
  }
  fill_in(report_, result);
  if (hosts_.count() == 0) clear_unknown_hosts(own_rank_, report_);
  name_hosts(hosts_, report_);
}

void JoinedReport::save() {
  complete_report(report_, options_);
  file_.save(report_);
  saved_hash_ = file_hash(file_.absolute_path());
}

bool JoinedReport::was_replaced() const {
  return saved_hash_ && file_hash(file_.absolute_path()) != saved_hash_;
}

int JoinedReport::finish(bool is_planned, const launch::SuperviseResult& result) {
  fill(is_planned, result);
  const Options files = own_files(options_);
  report::Trace trace;
  if (is_planned && !files.trace_path.empty()) add_to(trace);
  const std::size_t runs = report_.runs.size();
  finish_report(report_, {&trace, runs, runs}, files, file_);
  if (report_.status != report::Status::failed || result.failure) return 0;
  say_error("ddpbench: {}\n", report_.error->message);
  return failed_exit_code(report_);
}

void JoinedReport::send_trace() {
  if (reader_ != ReportReader::supervisor || options_.trace_path.empty()) return;
  try {
    for (const std::string& part : report::trace_texts(own_trace())) file_.hand_over(part);
  } catch (const std::exception&) {
    // The supervisor has the report, and says that this run is not in the trace.
  }
}

namespace {

// The other ranks are not children of this process. Their use is not known here, and must not count
// as load of other programs.
void fill_joined_conditions(report::Run& run, report::MachineSnapshot before, int processes) {
  if (processes > 1) {
    before.own_busy_s.reset();
    before.own_major_page_faults.reset();
    before.own_involuntary_switches.reset();
  }
  report::fill_conditions(run, before, take_machine_snapshot());
  if (processes == 1) return;
  const auto unknown =
      report::Figure::missing("a launcher started the ranks, and only rank 0's own use is known");
  run.conditions->other_load_ratio = unknown;
  run.conditions->major_page_faults = unknown;
  run.conditions->involuntary_context_switches = unknown;
}

}  // namespace

void TrainingReport::fill_in(report::Report& report, const launch::SuperviseResult& result) {
  report.runs.clear();
  report::Run run = collect_run(job_, channels_, result);
  if (startup_s_ > 0) run.time.startup_s = report::Figure::of(startup_s_);
  run.time.total_s = report::Figure::of(seconds_so_far());
  if (before_) fill_joined_conditions(run, *before_, channels_.layout().ranks);
  const bool diverged = run.status == report::Status::diverged;
  report.status = diverged ? report::Status::failed : run.status;
  report.error = run.error;
  report.runs.push_back(std::move(run));
}

report::Trace TrainingReport::own_trace() const { return trace_of_run(job_, channels_); }

void TrainingReport::add_to(report::Trace& trace) const { add_run(trace, job_, own_trace()); }

int TrainingReport::failed_exit_code(const report::Report& report) const {
  const bool diverged = report.runs.back().status == report::Status::diverged;
  return diverged ? kDivergedExitCode : 1;  // else the areas that the ranks left are broken
}

}  // namespace ddpbench::bench
