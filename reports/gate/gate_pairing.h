// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which runs the gate compares with which. Private to reports/ and to the study of the
// gate's errors, which draws its samples from comparable runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate_collectives.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

PairKey pair_key(const Run& run);
// The settings (data/settings.h) that must be equal in two runs that are compared. A setting that
// one of them did not record is no difference. REQUIRES: `report` holds `run`.
Settings pair_settings(const Report& report, const Run& run);
// Whether `allowed` has the key, its group ("optimizer" of "optimizer/lr") or its last part.
bool is_allowed(const std::string& key, std::span<const std::string> allowed);

// Repetitions from any number of reports, runs or collectives (gate_collectives.h): strategy,
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
  CollectiveRuns collectives;  // the runs that stand for rows of collectives
};

// Pairs the cells. A sweep may have several cells of one key: equal settings find each other first,
// and among these equal planted faults. Points into the reports. Throws ConfigError when settings
// differ that `allowed` does not name.
Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed);

}  // namespace ddpbench::report
