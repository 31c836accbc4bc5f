// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What all the gate's outputs say in the same words. Private to reports/.
#pragma once

#include <string>

#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// "20.13 ms", "412 MiB", "98.12 %"; "-" when there is none.
std::string figure_text(const std::string& name, const std::optional<double>& value);
// "+2.1 %" worse; of the accuracy in points, "+0.30 pt". "-" when there is none.
std::string change_text(const std::string& name, const std::optional<double>& change);
// "-0.3 .. +4.5"; empty when nothing varies or nothing is known.
std::string interval_text(const FigureVerdict& figure);
std::string p_text(const std::optional<double>& p);  // "0.012", "< 0.001"

std::string figure_heading(const FigureVerdict& figure);  // "median step"
// "ddp, 2 devices, shm, global_batch_size=64 [injected: slow:rank=1,...]"
std::string pair_title(const PairVerdict& pair);
// "5 new repetitions against 5"
std::string repetitions_text(const PairVerdict& pair);
// One sentence: what was found and why that is the verdict.
std::string figure_sentence(const FigureVerdict& figure, const GateOptions& options);
// Whether the figure needs that sentence: it did not pass, and no other figure says the same.
bool needs_words(const FigureVerdict& figure, const PairVerdict& pair);
// "new ddp, 4 devices, shm (1 run): not in the baseline"
std::string uncompared_text(const UncomparedRuns& runs);
// "alpha 0.05 over 4 tests; allowed: step +5 %, ..."
std::string rule_sentence(const GateResult& result);

}  // namespace ddpbench::report
