// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A run of a matrix whose ranks a launcher starts: how its settings reach the ranks, and what a
// rank does with them.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/options/options.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/rank_environment.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// How often a supervisor looks at a launched run; what is written to it wakes it at once.
inline constexpr int kLookAtRunMs = 100;

// The deadline by which the processes of a launched run must have ended by themselves, once the run
// is ending. Pure.
class EndLimit {
 public:
  static constexpr double kInterrupted_s = 5;  // ranks that were asked to end leave a report first
  static constexpr double kReported_s = 10;    // ranks that have reported only end, and launchers
  static constexpr double kKilled_s = 5;       // after SIGKILL: the round trip to the host
  // Ranks that miss a peer report at their own deadline (--timeout) and end. What is left must have
  // ended 5 s beyond it, and mpirun takes a third of a second to end.
  static constexpr double kBeyondTimeout_s = 4.5;

  // The processes must end within `seconds` from now. An earlier deadline stays.
  void within(double now_s, double seconds) { limit_s_ = std::min(limit_s_, now_s + seconds); }
  // A rank has failed, and the others will notice within `timeout_s` (--timeout; 0: no deadline).
  void after_failure(double now_s, double timeout_s) {
    if (timeout_s > 0) within(now_s, timeout_s + kBeyondTimeout_s);
  }
  bool passed(double now_s) const { return now_s > limit_s_; }
  // The next limit, after the one that has passed.
  void renew(double now_s) { limit_s_ = now_s + kKilled_s; }
  void move(double seconds) { limit_s_ += seconds; }  // this process was stopped for so long

 private:
  double limit_s_ = std::numeric_limits<double>::infinity();
};

// The variable that has the settings. Unlike a file or standard input, all launchers hand it on.
inline constexpr const char* kLaunchedRunVariable = "DDPBENCH_LAUNCHED_RUN";

// `options` of one run as the value of that variable: it reports to standard output, with its trace
// where one is wanted, and says nothing to people. Where things are written or started stays with
// the supervisor.
std::string launched_run_text(Options options);
// Throws ConfigError for anything else.
Options launched_run_options(const std::string& text);

// The variables of all ranks of a run: its settings, and a secret of its own.
std::map<std::string, std::string> launched_run_variables(const Options& options);

// The variables that a rank must not have from the environment that its launcher runs in: they
// would be taken for its place, or for options.
std::vector<std::string> variables_to_drop();

// One rank, placed by its variables. Returns its exit code.
int run_launched_rank(const std::string& text, const launch::GetVariable& get,
                      const std::vector<std::string>& arguments);

// What the supervisor has from the launcher of one run, and what that means. Pure.
class RunOutcome {
 public:
  // A line that it wrote to standard output. It belongs to a report or is ignored. Ranks may report
  // a failure as often as they know more: the last whole report of the lowest host counts, as rank
  // 0's knows most. What comes from behind the launcher counts as that of rank 0's host.
  void add_output(const std::string& line);
  // The same of a whole report of a host, or a part of its trace (trace.h), as text. What is
  // neither is ignored. The trace comes after the report, and is that of the same host.
  void add_report(int host, const std::string& text);
  void add_error(const std::string& line);
  void end(const launch::ChildExit& exit) { exit_ = exit; }

  bool has_ended() const { return exit_.has_value(); }
  // Whether a rank has said why it ends. The others notice at their deadline at the latest.
  bool is_given_up() const { return is_given_up_; }
  // Whether the ranks have written a whole report. They end then, or soon.
  bool has_report() const { return report_.has_value(); }
  // Whether it says that the run has come to nothing.
  bool has_failed_report() const { return report_ && report_->status != report::Status::ok; }

  // REQUIRES: has_ended(). `interrupted`: the supervisor has ended the run.
  LaunchedRun conclude(bool interrupted) const;

 private:
  int exit_code() const;
  report::ErrorInfo error_of_launcher() const;

  std::optional<launch::ChildExit> exit_;
  std::string complaint_;  // the last error message of a rank
  std::string foreign_;    // the most telling error line of the launcher, a shell or a library
  std::string growing_;    // a report that is not whole yet
  bool in_report_ = false;
  std::string lost_host_;  // what mpirun said when it lost one; empty: it did not
  bool is_given_up_ = false;
  std::optional<report::Report> report_;      // the one that counts
  int reporter_ = 0;                          // the host that made it
  std::map<int, report::TraceParts> traces_;  // by the hosts that made them
};

}  // namespace ddpbench::bench
