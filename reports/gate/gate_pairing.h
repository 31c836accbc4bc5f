// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which runs the gate holds against which. Private to reports/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_settings.h"

namespace ddpbench::report {

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
