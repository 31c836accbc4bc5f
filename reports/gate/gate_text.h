// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Phrases that all outputs of the gate share. Private to reports/.
#pragma once

#include <optional>
#include <string>

#include "reports/gate/gate.h"

namespace ddpbench::report {

// "20.130 ms", "412.0 MiB", "98.12 %"; "-" without a value.
std::string figure_text(const std::string& name, const std::optional<double>& value);
// "2.1 % worse", "9.1 % better", "unchanged", of the accuracy "0.30 points worse"; "-" without one.
std::string change_text(const std::string& name, const std::optional<double>& change);
// "0.3 better .. 4.5 worse", "8.0 .. 10.2 better", in per cent or points; empty when the figure
// does not vary or no interval is known.
std::string interval_text(const FigureVerdict& figure);
// The p value of the change in its own direction, "0.012", "< 0.001"; empty without an interval.
std::string p_text(const FigureVerdict& figure);
// "7.075 ms -> 8.672 ms": the means of all repetitions as they were measured.
std::string measured_text(const FigureVerdict& figure);
std::string figure_heading(const FigureVerdict& figure);  // "median step"

// "ddp, 2 devices, shm, global_batch_size=64 [new runs injected: slow:rank=1,...]"
std::string pair_title(const PairVerdict& pair);
std::string interval_heading(const GateOptions& options);  // "90 % interval"
// "5 new repetitions against 5 of the baseline"
std::string repetitions_text(const PairVerdict& pair);
// One sentence with the finding and the reason for the verdict.
std::string figure_sentence(const FigureVerdict& figure, const GateOptions& options);
// Whether outputs show that sentence: not after a PASS, nor if another figure says the same.
bool needs_words(const FigureVerdict& figure, const PairVerdict& pair);
std::string uncompared_text(const UncomparedRuns& runs);  // "new ddp (1 run): not in the baseline"
// "alpha 0.05, Holm over 5 tests; allowed: median step 5.0 %, ..."
std::string rule_sentence(const GateResult& result);

}  // namespace ddpbench::report
