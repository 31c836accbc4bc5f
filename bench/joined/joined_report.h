// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedReport: the report of a joined world, on the rank that writes it. That is rank 0, or the
// rank that takes its place. What ran fills in its part.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/joined_peers.h"
#include "bench/joined/joined_verdict.h"
#include "bench/options/options.h"
#include "bench/plan/training_job.h"
#include "bench/run/report_output.h"
#include "parallel/launch/pause_log.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// Records the times in which this process was stopped, for a rank that has no supervisor to do so.
// It looks at the clock ten times a second, on a thread of its own, as long as it lives.
class PauseWatch {
 public:
  PauseWatch();
  ~PauseWatch();
  PauseWatch(const PauseWatch&) = delete;
  PauseWatch& operator=(const PauseWatch&) = delete;

  // All pauses until now. Any thread may ask.
  std::vector<launch::Pause> pauses();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  launch::PauseLog log_;
  std::thread thread_;
};

// user: a file, as --json says. supervisor: standard output, each time that it is saved.
enum class ReportReader : std::uint8_t { user, supervisor };

class JoinedReport {
 public:
  // Times are measured from now on, and so are pauses in which this rank is stopped. `reader`: who
  // the report is for. `launcher`: what started the ranks (RankEnvironment).
  JoinedReport(std::vector<std::string> arguments, ReportReader reader, std::string launcher)
      : arguments_(std::move(arguments)), reader_(reader), launcher_(std::move(launcher)) {}
  virtual ~JoinedReport() = default;
  JoinedReport(const JoinedReport&) = delete;
  JoinedReport& operator=(const JoinedReport&) = delete;

  // Whether the report of this world at `path` already states a failure. If hosts share files, a
  // rank that is cut off from rank 0 must not replace the report that rank 0 has written.
  static bool tells_failure(const std::string& path);

  // On rank 0: decides where the report goes. Throws ConfigError when it could not be written
  // there. With --dry-run it only looks. `host`: the number of this rank's host.
  void choose_place(const Options& options, int host = 0);

  // Makes all of the report but the run. If choose_place() was not called, the report replaces the
  // one that rank 0 left, if the board of `peers` has its path. The report names the hosts that
  // `peers` knows by now. `gpus`: the world's; null: it uses none.
  void begin(const Options& options, const HostDevices* gpus, JoinedPeers& peers);
  bool has_begun() const { return !report_.argv.empty(); }

  // Call it on rank 0 when all ranks have planned the same. Reserves the report's file and puts its
  // path on `board`, unless that is null. Throws ConfigError if another command has taken the file.
  // REQUIRES: has_begun().
  void reserve(JoinedBoard* board);

  // Fills in what ran, or only the failure where nothing could be planned. The pauses of `result`
  // are this rank's own. REQUIRES: has_begun().
  void fill(bool is_planned, launch::SuperviseResult result);
  // Writes what is filled in, at once; finish() may follow.
  void save();
  // Whether another process has written the file since save().
  bool was_replaced() const;
  // Fills it in, prints the table and writes the report, and for a user the trace. Returns the exit
  // code of what ran where no rank failed.
  int finish(bool is_planned, const launch::SuperviseResult& result);
  // With --trace, sends the run's trace to the supervisor, if that is the reader. Call it last: the
  // report does not wait for what may be large. Does not throw; a trace that cannot be sent soon is
  // missing there.
  void send_trace();

 protected:
  // Fills in what ran in place of what is there, and the report's status and error.
  virtual void fill_in(report::Report& report, const launch::SuperviseResult& result) = 0;
  // Changes the head of a report whose runs do not follow from Options alone.
  virtual void complete_head(report::Report&) const {}
  // The trace of what ran: of itself, and added to that of a whole report.
  virtual report::Trace own_trace() const { return {}; }
  virtual void add_to(report::Trace&) const {}
  // The exit code of a report whose status is failed though no rank has failed.
  virtual int failed_exit_code(const report::Report& report) const = 0;

  // From begin() on; there are none before all have joined.
  const JoinedHosts& hosts() const { return hosts_; }
  double seconds_so_far() const { return seconds_since(begin_); }

 private:
  // `options` without the files that another writes.
  Options own_files(Options options) const;

  std::vector<std::string> arguments_;
  ReportReader reader_;
  std::string launcher_;
  SteadyClock::time_point begin_ = SteadyClock::now();
  std::string started_at_ = utc_timestamp();
  Options options_;   // from begin() on
  int own_rank_ = 0;  // from begin() on, as the next
  JoinedHosts hosts_;
  ReportOutput file_;
  std::optional<std::uint64_t> saved_hash_;  // of what save() wrote
  report::Report report_;
  PauseWatch watch_;
};

// TrainingReport: the report of a joined world that trains, with one run.

class TrainingReport final : public JoinedReport {
 public:
  // See JoinedReport. The job, once it is planned, and the channels are read whenever the report is
  // filled in.
  TrainingReport(std::vector<std::string> arguments, ReportReader reader, std::string launcher,
                 const TrainingJob& job, const launch::RankChannels& channels)
      : JoinedReport(std::move(arguments), reader, std::move(launcher)),
        job_(job),
        channels_(channels) {}

  // Training begins: the machine's load counts from here on.
  void note_start() { before_ = take_machine_snapshot(); }
  // This rank is set up.
  void note_set_up() { startup_s_ = seconds_so_far(); }

 private:
  void fill_in(report::Report& report, const launch::SuperviseResult& result) override;
  report::Trace own_trace() const override;
  void add_to(report::Trace& trace) const override;
  int failed_exit_code(const report::Report& report) const override;

  const TrainingJob& job_;
  const launch::RankChannels& channels_;
  std::optional<report::MachineSnapshot> before_;
  double startup_s_ = 0;  // until this rank was set up
};

}  // namespace ddpbench::bench
