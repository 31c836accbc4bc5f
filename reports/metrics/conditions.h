// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the machine did during a run besides it: other load, frequency, throttling, swapping. From
// two snapshots of counters, one before and one after the run, so that it costs the run nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Counters as the system tells them at one moment; what it does not tell is not set.
struct MachineSnapshot {
  std::optional<double> wall_s;  // a clock that only goes forward
  // Processor seconds since boot, over all processors of the machine.
  std::optional<double> busy_s;    // running something
  std::optional<double> stolen_s;  // wanted, but given to other virtual machines
  std::optional<double> all_s;     // busy, idle, stolen: everything
  // What this program used, and the processes that it started and that have ended.
  std::optional<double> own_busy_s;
  std::optional<std::uint64_t> own_major_page_faults, own_involuntary_switches;
  std::optional<double> quota_throttled_s;         // stopped by the control group's CPU quota
  std::optional<double> cpu_frequency_mhz;         // mean over processors, at this moment
  std::optional<std::uint64_t> swapped_in_pages;   // of the machine
  std::optional<std::uint64_t> thermal_throttles;  // of the machine
};

// Without step_drift_ratio and notes.
Conditions conditions_between(const MachineSnapshot& before, const MachineSnapshot& after);

// Sets run.conditions: those, the drift of its step times, and a note on whatever is out of the
// ordinary (docs/metrics.md has the limits).
void fill_conditions(Run& run, const MachineSnapshot& before, const MachineSnapshot& after);

// What the notes of all runs come to, a line each: "in 3 of 4 runs, at worst: other processes used
// 35 % of the machine".
std::vector<std::string> condition_warnings(const Report& report);

// GPUs whose clocks were held down while a run trained: a sentence a reason, without "warning:",
// for all runs together: "in 2 of 4 runs a GPU's clocks were held down by its power limit, at worst
// on cuda:1 in 40 % of the samples".
std::vector<std::string> gpu_warnings(const Report& report);

}  // namespace ddpbench::report
