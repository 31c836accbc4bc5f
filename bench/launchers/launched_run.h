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
  // Where ranks have not met, only the supervisor knows that one has died.
  static constexpr double kUnnoticed_s = 10;
  // A rank that gives up has waited a moment for the others to do so, too (JoinedPeers::settle).
  static constexpr double kAfterGivingUp_s = 2;

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

// What the supervisor has from the processes of one launched run, and what that means. Pure.
class RunOutcome {
 public:
  // `hosts`: of each process that the supervisor sees, a number of its host, 0 for rank 0's. There
  // is a process for each rank, or one for the launcher.
  explicit RunOutcome(std::vector<int> hosts)
      : hosts_(std::move(hosts)), processes_(hosts_.size()) {}

  // A line that a process wrote to standard output. It belongs to a report or is ignored. Ranks may
  // report a failure as often as they know more: the last whole report of the lowest host counts,
  // as rank 0's knows most. What comes from behind one launcher counts as that of rank 0's host.
  void add_output(int process, const std::string& line);
  // The same of a whole report of a host, or a part of its trace (trace.h), as text. What is
  // neither is ignored. The trace comes after the report, and is that of the same host.
  void add_report(int host, const std::string& text);
  void add_error(int process, const std::string& line);
  void end(int process, const launch::ChildExit& exit);
  // The process is out of reach, or was never started.
  void lose(int process, const std::string& why);

  bool has_ended(int process) const { return of(process).exit.has_value(); }
  bool all_ended() const;
  bool any_failed() const;
  // Whether a signal is known to have ended a process.
  bool any_killed() const {
    return any([](const launch::ChildExit& exit) { return exit.signal != 0; });
  }
  // Whether a process ended by itself because something is wrong: all others know it, too.
  bool any_gave_up() const {
    return any([](const launch::ChildExit& exit) { return exit.code != 0; });
  }

  // Whether a rank has said why it ends. The others notice at their deadline at the latest.
  bool is_given_up() const { return is_given_up_; }
  // Whether the ranks have written a whole report. They end then, or soon.
  bool has_report() const { return report_.has_value(); }
  // Whether it says that the run has come to nothing.
  bool has_failed_report() const { return report_ && report_->status != report::Status::ok; }

  // REQUIRES: all_ended(). `interrupted`: the supervisor has ended the run.
  LaunchedRun conclude(bool interrupted) const;

 private:
  struct Process {
    std::optional<launch::ChildExit> exit;
    std::string lost;       // why it is out of reach; empty: it is not
    std::string complaint;  // its last error message
    std::string foreign;    // the most telling error line of a launcher, shell or library
    std::string growing;    // a report that is not whole yet
    bool in_report = false;
    std::string lost_host;  // what mpirun said when it lost one; empty: it did not
  };

  const Process& of(int process) const { return processes_.at(static_cast<std::size_t>(process)); }
  Process& of(int process) { return processes_.at(static_cast<std::size_t>(process)); }
  bool any(bool (*ended_so)(const launch::ChildExit&)) const;
  int exit_code_for(const report::ErrorInfo& error) const;
  report::ErrorInfo error_of_processes() const;
  void add_loss(report::ErrorInfo& error) const;

  std::vector<int> hosts_;
  std::vector<Process> processes_;
  std::optional<int> first_failed_;  // the process that failed before all others
  bool is_given_up_ = false;
  std::optional<report::Report> report_;      // the one that counts
  int reporter_ = 0;                          // the host that made it
  std::map<int, report::TraceParts> traces_;  // by the hosts that made them
};

}  // namespace ddpbench::bench
