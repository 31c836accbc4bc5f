// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SweepSchedule: decides which run of a sweep comes next, and when there are enough runs. It is
// pure: it runs nothing and reads no clock.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// One run of a sweep: the index of its cell, and the number of its repetition (from 0).
struct Slot {
  std::size_t cell = 0;
  int repetition = 0;
  auto operator<=>(const Slot&) const = default;
};

struct SchedulePolicy {
  bool interleaved = true;  // false: all repetitions of a cell in a row
  std::uint64_t seed = 1;   // of the order within rounds
  int first_repetition = 0;
  int repetitions = 1;  // of every cell, however much they vary
  // Repetitions go on until the 95 % interval of the median over repetitions, relative to the
  // median, is this narrow. Not set: no further repetitions.
  std::optional<double> wanted_width;
  int max_repetitions = 30;
  double max_seconds = 0;  // no run beyond `repetitions` begins after it; 0: no limit
};

SchedulePolicy schedule_policy(const Options& options);

class SweepSchedule {
 public:
  // `cells`: the indices of the cells that take part.
  SweepSchedule(std::vector<std::size_t> cells, const SchedulePolicy& policy);

  // Returns the next run, `elapsed_s` after the sweep began; nothing when there are enough.
  //
  // Interleaved rounds make every cell once. The order of a round depends on the seed, the round
  // and the cells alone, so that a resumed sweep keeps it. A single round without wanted_width
  // keeps the cells' order: with one run per cell, there is nothing to protect from drift.
  std::optional<Slot> next(double elapsed_s);

  // Records the median step time of a run, or nothing when it failed: then precision adds no run to
  // its cell. next() leaves out slots that are recorded before their turn (--resume).
  void record(Slot slot, std::optional<double> step_s);

  // Cells and the number of runs that each still wants `elapsed_s` after the sweep began, as far as
  // is known now: of those added for precision, only the next. A cell without any is left out.
  std::map<std::size_t, int> runs_left(double elapsed_s) const;
  // The same, as many as there may be: if no cell becomes precise before max_repetitions.
  std::map<std::size_t, int> most_runs_left(double elapsed_s) const;
  // The 95 % interval of the median over the cell's repetitions so far, relative to the median.
  // Nothing while the repetitions are too few for an interval.
  std::optional<double> interval_width(std::size_t cell) const;

 private:
  bool wanted(std::size_t cell, int repetition, double elapsed_s) const;
  bool precise(std::size_t cell) const;
  bool failed(std::size_t cell) const;
  std::optional<Slot> next_interleaved(double elapsed_s);
  std::optional<Slot> next_sequential(double elapsed_s);
  std::vector<std::size_t> order_of(int round) const;

  std::vector<std::size_t> cells_;
  SchedulePolicy policy_;
  std::map<Slot, std::optional<double>> results_;
  std::deque<Slot> round_;  // the slots that are left of the round
  int next_round_;
  std::size_t current_ = 0;  // index in cells_, when sequential
};

}  // namespace ddpbench::bench
