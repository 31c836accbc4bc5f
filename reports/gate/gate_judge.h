// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From pairs to verdicts: collects their figures, tests all of them together, as the correction
// counts them all, and judges each. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate_pairing.h"

namespace ddpbench::report {

// Why the figures of `run` are not compared; empty when they are.
std::string unusable_reason(const Run& run);
std::vector<const Run*> usable_runs(std::span<const Run* const> runs);

// The mildest verdict that the new runs allow, and why. A failure is REGRESSED if the baseline had
// none. Other failures, skipped or interrupted runs, and runs that are not verified although the
// baseline is, are INCONCLUSIVE.
struct Health {
  GateVerdict floor = GateVerdict::pass;
  std::vector<std::string> notes;
};
Health health_of(std::span<const Run* const> candidate, std::span<const Run* const> base);

// A pair with at least one usable run in its baseline. `candidate` and `base` are its usable runs.
struct ComparablePair {
  const PairedCells* cells = nullptr;
  std::vector<const Run*> candidate, base;
};

// Sets `family` to the number of hypotheses that the correction counted.
std::vector<PairVerdict> judge_pairs(std::span<const ComparablePair> works,
                                     const GateOptions& options, std::size_t& family);

}  // namespace ddpbench::report
