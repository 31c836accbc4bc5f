// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SweepSchedule: which run of a sweep comes next, and when there are enough runs. Pure: it runs
// nothing and asks no clock.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// One run of a sweep: an index into its cells, and which time it is made (from 0).
struct Slot {
  std::size_t cell = 0;
  int repetition = 0;
  auto operator<=>(const Slot&) const = default;
};

struct SchedulePolicy {
  bool interleaved = true;  // else all repetitions of a cell after each other
  std::uint64_t seed = 1;   // of the order within rounds
  int first_repetition = 0;
  int repetitions = 1;  // of every cell, whatever they show
  // Go on until the 95 % interval of the median over repetitions is so narrow, relative to the
  // median; not set: no further ones.
  std::optional<double> wanted_width;
  int max_repetitions = 30;
  double max_seconds = 0;  // no run beyond `repetitions` begins after this time; 0: no limit
};

SchedulePolicy schedule_policy(const Options& options);

class SweepSchedule {
 public:
  // `cells`: those that take part.
  SweepSchedule(std::vector<std::size_t> cells, const SchedulePolicy& policy);

  // The next run, `elapsed_s` after the sweep began; nothing when there are enough.
  //
  // Interleaved: in rounds that make every cell once, each round in an order of its own that
  // depends on the seed, the round and the cells alone (so a resumed sweep keeps it). A single
  // round without wanted_width keeps the cells' order: with one run a cell there is nothing to
  // protect from drift.
  std::optional<Slot> next(double elapsed_s);

  // Records the median step time of a run; nothing when it failed: no run is then added to its cell
  // for precision. Slots that are recorded before their turn (--resume) are left out.
  void record(Slot slot, std::optional<double> step_s);

 private:
  bool wanted(std::size_t cell, int repetition, double elapsed_s) const;
  bool precise(std::size_t cell) const;
  std::optional<Slot> next_interleaved(double elapsed_s);
  std::optional<Slot> next_sequential(double elapsed_s);
  std::vector<std::size_t> order_of(int round) const;

  std::vector<std::size_t> cells_;
  SchedulePolicy policy_;
  std::map<Slot, std::optional<double>> results_;
  std::deque<Slot> round_;  // what is left of it
  int next_round_;
  std::size_t current_ = 0;  // of cells_, when sequential
};

}  // namespace ddpbench::bench
