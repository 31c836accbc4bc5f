// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From pairs to verdicts: collect their figures, test them all, judge each. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reports/gate/gate_pairing.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// A pair whose baseline ended well at least once; `fresh` and `base` are the runs that did.
struct ComparablePair {
  const PairedCells* cells = nullptr;
  std::vector<const Run*> fresh, base;
};

// `family`: number of hypotheses that the correction counted.
std::vector<PairVerdict> judge_pairs(std::span<const ComparablePair> works,
                                     const GateOptions& options, std::size_t& family);

}  // namespace ddpbench::report
