// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which runs the gate compares with which. Rows of `ddpbench comm` are runs whose steps are
// the iterations, so they are paired, tested and judged by the same rules. Private to reports/.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate.h"

namespace ddpbench::report {

PairKey pair_key(const Run& run);
// The settings (data/settings.h) that must be equal in two runs that are compared. A setting that
// one of them did not record is no difference. REQUIRES: `report` holds `run`.
Settings pair_settings(const Report& report, const Run& run);
// The operation, its ranks, its bytes and its backend.
PairKey collective_key(const CollectiveRow& row);
// What must be equal in two rows that are compared, beside their key; what a row does not tell is
// absent.
Settings collective_settings(const CollectiveRow& row);

// A run with the time of the iterations as that of its steps. It is verified when no element was
// wrong, and failed or interrupted, as `report` is, when no iteration was timed.
Run run_of(const Report& report, const CollectiveRow& row);

// Whether `allowed` has the key, its group ("optimizer" of "optimizer/lr") or its last part.
bool is_allowed(const std::string& key, std::span<const std::string> allowed);

// Repetitions from any number of reports, runs or collectives: strategy,
// devices, servers, backend, settings and planted faults are equal. A run that did not end well
// joins the cell that agrees with all it recorded.
struct Cell {
  PairKey key;
  Settings settings;
  std::string injected;  // planted faults; no setting: slowed runs may meet clean ones
  std::vector<const Run*> runs;
  std::string setting;  // "global_batch_size=64": how it differs from others of its key
};

struct PairedCells {
  Cell candidate, base;
  std::vector<std::string> differing;  // keys of settings; all of them are allowed
};

struct Pairing {
  std::vector<PairedCells> pairs;  // in the order of the new reports
  std::vector<Cell> candidate_alone, base_alone;
  std::deque<Run> collectives;  // the runs that stand for rows of collectives: cells point to them
};

// Pairs the cells. A sweep may have several cells of one key: equal settings find each other first,
// and among these equal planted faults. Points into the reports. Throws ConfigError when settings
// differ that `allowed` does not name.
Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed);

}  // namespace ddpbench::report
