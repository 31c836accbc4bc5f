// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// TrainingReport: the report of a joined world that trains, with one run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/host/machine_snapshot.h"
#include "bench/joined/joined_report.h"
#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

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
