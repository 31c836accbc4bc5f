// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RunOutcome: what the supervisor has from the processes of one launched run, and what that means.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/run/run_launcher.h"
#include "parallel/launch/child_process.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

class RunOutcome {
 public:
  // `hosts`: of each process that the supervisor sees, a number of its host, 0 for rank 0's. There
  // is a process for each rank, or one for the launcher.
  explicit RunOutcome(std::vector<int> hosts)
      : hosts_(std::move(hosts)), processes_(hosts_.size()) {}

  // A line that a process wrote to standard output. It belongs to a report or is ignored. Several
  // ranks may report a failure, each as often as it knows more; the last whole report counts. Hosts
  // that are cut off from each other all report; that of the lowest counts, as rank 0's knows most.
  // What comes from behind one launcher in this way counts as that of rank 0's host.
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
  bool any_killed() const;
  // Whether a process ended by itself because something is wrong, so that all others know it, too.
  bool any_gave_up() const;

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
