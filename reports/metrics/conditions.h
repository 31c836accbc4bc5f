// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a run was left in peace: whether its step times kept their level, and what else the
// machine did: other load, frequency, throttling, swapping. That follows from snapshots of counters
// before and after the run, so that it costs the run nothing. docs/metrics.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

inline constexpr std::size_t kFewestForSteady = 10;  // steps before a series can be called steady

// Whether the series is steady at its end: its last window and the one before have the same level,
// within 2 % or what their noise explains. A window is a quarter of the series, 5 to 25 steps.
// False for fewer than kFewestForSteady steps.
bool is_steady(std::span<const double> step_s);

// The relative change from the first third of a run's timed steps to the last. It is missing, with
// the reason, when there are too few steps or the change is within chance.
Figure step_drift(std::span<const double> step_s);

// Counters of the system at one moment. Counters that it does not tell are not set.
struct MachineSnapshot {
  std::optional<double> wall_s;  // a monotonic clock
  // Processor seconds since boot, summed over all processors of the machine.
  std::optional<double> busy_s;    // busy, with any process
  std::optional<double> stolen_s;  // wanted, but spent on other virtual machines
  std::optional<double> all_s;     // busy, idle and stolen
  // Used by this program and by its child processes that have ended.
  std::optional<double> own_busy_s;
  std::optional<std::uint64_t> own_major_page_faults, own_involuntary_switches;
  std::optional<double> quota_throttled_s;         // stopped by the CPU quota of the control group
  std::optional<double> cpu_frequency_mhz;         // mean over the processors
  std::optional<std::uint64_t> swapped_in_pages;   // of the machine
  std::optional<std::uint64_t> thermal_throttles;  // of the machine

  // Adds what `other`, of the same machine, knows of its own use: unknown where either is.
  void add_own(const MachineSnapshot& other);
};

// Sets run.conditions: what the snapshots tell, the drift of the step times, and a note on each
// condition that is out of the ordinary (docs/metrics.md has the limits). Of several machines, the
// first of which is that of rank 0, what kept the CPU from the run is that of the worst, or
// unknown. REQUIRES: `before` and `after` have the same machines, at least one.
void fill_conditions(Run& run, std::span<const MachineSnapshot> before,
                     std::span<const MachineSnapshot> after);

// "other programs used 70 % of the CPU": what kept the CPU from this program, by the same
// limits as the notes. Empty where that was little, or is not known.
std::string other_work(const Run& run);
// The same, or else that step times drifted by a tenth: nothing is concluded from such a run.
std::string disturbance_words(const Run& run);

// A sentence on runs whose figures are less certain than they look.
struct Warning {
  std::string text;
  std::vector<const Run*> runs;  // the runs that it concerns
  std::string mark = {};         // the letter of their rows in a table; empty: it has none

  std::string line() const;  // "[a] a.json: other programs used ..."
};

// What all runs together have out of the ordinary, one sentence for each condition of the machine,
// each reason for which GPU clocks were held down, and unsteady warm-ups: "other programs used up
// to 35 % of the CPU (3 of 4 runs)".
std::vector<Warning> condition_warnings(const Report& report);

}  // namespace ddpbench::report
