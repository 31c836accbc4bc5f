// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From pairs to verdicts: collect their figures, test them all, judge each. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate_pairing.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// Why the run's figures are not compared; empty when they are.
std::string unusable_reason(const Run& run);
std::vector<const Run*> usable_runs(std::span<const Run* const> runs);

// The least severe verdict that the new runs allow, and why. A failure where the baseline had none
// is REGRESSED; what was skipped, interrupted or not verified, where the baseline was, is
// INCONCLUSIVE.
struct Health {
  GateVerdict floor = GateVerdict::pass;
  std::vector<std::string> notes;
};
Health health_of(std::span<const Run* const> fresh, std::span<const Run* const> base);

// A pair whose baseline ended well at least once; `fresh` and `base` are the runs that did.
struct ComparablePair {
  const PairedCells* cells = nullptr;
  std::vector<const Run*> fresh, base;
};

// `family`: number of hypotheses that the correction counted.
std::vector<PairVerdict> judge_pairs(std::span<const ComparablePair> works,
                                     const GateOptions& options, std::size_t& family);

}  // namespace ddpbench::report
