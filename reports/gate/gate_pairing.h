// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which runs the gate compares with which, and hands the pairs on to the judgment. Rows of
// `ddpbench comm` are runs whose steps are the iterations, so they are paired, tested and judged by
// the same rules. Private to reports/.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate.h"

namespace ddpbench::report {

// Repetitions from any number of reports, runs or collectives: strategy, devices, servers, backend,
// settings and planted faults are equal. A run that did not end well joins the cell that agrees
// with all it recorded.
struct Cell {
  PairKey key;
  Settings settings;     // those that must be equal in two runs that are compared
  std::string injected;  // planted faults; no setting: slowed runs may meet clean ones
  std::vector<const Run*> runs;
  std::string setting = {};  // "global_batch_size=64": how it differs from others of its key
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

// A cell for each run and each collective of the reports, in their order. `collectives` is given
// the runs that stand for collectives. A setting that a run did not record is absent.
std::vector<Cell> single_cells(std::span<const Report> reports, std::deque<Run>& collectives);

// Pairs the cells. A sweep may have several cells of one key: equal settings find each other first,
// and among these equal planted faults. Points into the reports. Throws ConfigError when settings
// differ that `allowed` does not name: the key, its group ("optimizer" of "optimizer/lr") or its
// last part.
Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed);

// Appends the verdicts on the pairs to the result, or to `uncompared` where none of the baseline's
// runs ended well. Sets `tests` and `verdict`.
void judge_pairs(std::span<const PairedCells> all, GateResult& result);

}  // namespace ddpbench::report
