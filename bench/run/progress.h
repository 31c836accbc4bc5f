// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shows the progress of a run on stdout: a line that redraws on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "bench/host/terminal.h"
#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// Where a run stands among the runs of its command.
struct SweepPlace {
  std::size_t run = 1;             // its number, from 1
  std::size_t runs = 1;            // as many as there will be, this and the earlier ones included
  bool at_most = false;            // there may be fewer: --until-ci ends when the medians are known
  std::optional<double> later_s;   // estimate for the runs after it; nothing: not known
  std::optional<double> interval;  // --until-ci: relative width reached by the run's setting so far
  std::optional<double> wanted;    // --until-ci: the relative width to be reached
};

class Progress {
 public:
  enum class Style : std::uint8_t { quiet, lines, redraw };
  explicit Progress(Style style) : style_(style) {}
  // Returns quiet with --quiet, else redraw when stdout is a terminal.
  static Style style_for_stdout(bool quiet);

  // Where the runs that begin from now on stand.
  void place(const SweepPlace& place) { place_ = place; }
  void begin(const TrainingJob& job, const std::string& title);
  void update(const launch::RankChannels& channels);
  // In place of update() where nothing is known but that the run goes on.
  void show_waiting();
  // Clears a redrawn line.
  void end();

 private:
  std::string line(const launch::RankStatus& status, std::int64_t timed) const;
  std::string numbered() const;
  std::optional<double> left_s(const launch::RankStatus& status, std::int64_t timed) const;
  std::string stage(const launch::RankStatus& status, std::int64_t timed) const;

  Style style_;
  SweepPlace place_;
  std::string title_;
  std::int64_t total_ = 0;  // steps of the run if the warm-up takes no more than it must
  std::int64_t timed_ = 0;  // timed ones of total_
  std::int64_t steps_per_epoch_ = 1;
  int epochs_ = 1;
  std::optional<Percent> wanted_accuracy_;  // --until-accuracy
  std::int64_t global_batch_ = 0;
  std::chrono::steady_clock::time_point begin_, next_line_;
  std::uint64_t last_step_ = 0;  // at the last line, for the rate
  std::chrono::steady_clock::time_point last_time_;
  double rate_ = 0;  // steps/s, smoothed
  StatusLine status_line_;
};

}  // namespace ddpbench::bench
