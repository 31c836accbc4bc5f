// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_report.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "bench/comm/comm_job.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/joined/report_inbox.h"
#include "bench/run/launch_run.h"
#include "bench/run/run_records.h"
#include "parallel/launch/rank_environment.h"
#include "reports/exports/trace.h"
#include "reports/json/report_json.h"

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
  if (contents_.complete_head) contents_.complete_head(report_);
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

void JoinedReport::fill(bool is_planned, const launch::SuperviseResult& result) {
  if (!is_planned) {
    report_.status = result.interrupted ? report::Status::interrupted : report::Status::failed;
    if (result.failure) report_.error = failure_info(*result.failure);
    return;
  }
  contents_.fill_in(report_, result);
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
  if (is_planned && !files.trace_path.empty() && contents_.trace) {
    auto [job, own] = contents_.trace();
    add_run(trace, job, std::move(own));
  }
  finish_report(report_, {&trace, report_.runs.size()}, files, file_);
  if (report_.status != report::Status::failed || result.failure) return 0;
  say_error("ddpbench: {}\n", report_.error->message);
  if (!report_.collectives.empty()) return kWrongResultExitCode;
  const bool diverged =
      !report_.runs.empty() && report_.runs.back().status == report::Status::diverged;
  return diverged ? kDivergedExitCode : 1;  // else the areas that the ranks left are broken
}

void JoinedReport::send_trace() {
  if (reader_ != ReportReader::supervisor || options_.trace_path.empty()) return;
  try {
    for (const std::string& part : report::trace_texts(contents_.trace().second))
      file_.hand_over(part);
  } catch (const std::exception&) {
    // The supervisor has the report, and says that this run is not in the trace.
  }
}

}  // namespace ddpbench::bench
