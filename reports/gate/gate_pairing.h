// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which runs the gate holds against which. Private to reports/ and to the study of the gate's
// errors, which draws from runs that could be held against each other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

PairKey pair_key(const Run& run);
// The settings (data/settings.h) that must be equal for two runs to be compared. `report` holds
// `run`. What one of them did not record differs from nothing.
Settings pair_settings(const Report& report, const Run& run);
// Whether one of `allowed` is the key, its group ("optimizer" of "optimizer/lr") or its last part.
bool is_allowed(const std::string& key, std::span<const std::string> allowed);

// Repetitions of one thing: equal strategy, devices, servers, backend, settings and planted faults,
// from however many reports. Runs that did not end well belong to the cell that what they recorded
// fits.
struct Cell {
  PairKey key;
  Settings settings;
  std::string injected;  // no setting: slowed-down runs are held against clean ones
  std::vector<const Run*> runs;
  std::string setting;  // "global_batch_size=64": what tells it from others of its key; else empty
};

struct PairedCells {
  Cell fresh, base;
  std::vector<std::string> differing;  // keys; all of them allowed
};

struct Pairing {
  std::vector<PairedCells> pairs;  // in the order of the new reports
  std::vector<Cell> fresh_alone, base_alone;
};

// A sweep may hold several cells of one key: equal settings find each other first, and of these
// equal planted faults. Throws
// ConfigError when settings differ that `allowed` does not name. Points into the reports.
Pairing pair_runs(std::span<const Report> fresh, std::span<const Report> base,
                  std::span<const std::string> allowed);

}  // namespace ddpbench::report
