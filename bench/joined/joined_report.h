// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedReport: the report of a joined world, on the rank that writes it. That is rank 0, or the
// rank that takes its place. What ran fills in its part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
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
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// user: a file, as --json says. supervisor: standard output, each time that it is saved.
enum class ReportReader : std::uint8_t { user, supervisor };

// What a report has of a world that trains, or of one that measures collectives.
struct JoinedContents {
  // Fills in what ran in place of what is there, and the report's status and error.
  std::function<void(report::Report& report, const launch::SuperviseResult& result)> fill_in;
  // Changes the head of a report whose runs do not follow from Options alone; may be empty.
  std::function<void(report::Report& report)> complete_head;
  // The job and the trace of what ran; may be empty.
  std::function<std::pair<const TrainingJob&, report::Trace>()> trace;
};

class JoinedReport {
 public:
  // Times are measured from now on. `reader`: who the report is for. `launcher`: what started the
  // ranks (RankEnvironment).
  JoinedReport(std::vector<std::string> arguments, ReportReader reader, std::string launcher,
               JoinedContents contents)
      : arguments_(std::move(arguments)),
        reader_(reader),
        launcher_(std::move(launcher)),
        contents_(std::move(contents)) {}
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

  // Fills in what ran, or only the failure where nothing could be planned. REQUIRES: has_begun().
  void fill(bool is_planned, const launch::SuperviseResult& result);
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

  // From begin() on; there are none before all have joined.
  const JoinedHosts& hosts() const { return hosts_; }
  double seconds_so_far() const { return seconds_since(begin_); }

 private:
  // `options` without the files that another writes.
  Options own_files(Options options) const;

  std::vector<std::string> arguments_;
  ReportReader reader_;
  std::string launcher_;
  JoinedContents contents_;
  SteadyClock::time_point begin_ = SteadyClock::now();
  std::string started_at_ = utc_timestamp();
  Options options_;   // from begin() on
  int own_rank_ = 0;  // from begin() on, as the next
  JoinedHosts hosts_;
  ReportOutput file_;
  std::optional<std::uint64_t> saved_hash_;  // of what save() wrote
  report::Report report_;
};

}  // namespace ddpbench::bench
