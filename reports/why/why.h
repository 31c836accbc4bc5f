// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Explains why a run on several devices is not faster. It splits the step into parts that add up to
// the step time, names the largest loss against `single` in a sentence, and says what would help.
// It needs only the report; docs/metrics.md ("Why") has the formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/why/why_cause.h"

namespace ddpbench::report {

struct VerdictPart {
  std::string key;    // "comm_exposed_s"
  std::string title;  // "communication not hidden"
  Figure seconds;     // time in the step; missing with its reason
  Figure share;       // seconds / step time
  // The time beyond that of `single`, in strong scaling beyond that of single / world size. It may
  // be below 0, and is missing without a baseline.
  Figure lost_s;
};

struct Verdict {
  Cause cause = Cause::unknown;
  std::string sentence;   // "all-reduce not hidden is 41 % of the step: ...", without a full stop
  std::string advice;     // what would help; empty: nothing to advise
  double step_s = 0;      // median step time; 0 when no step was timed
  double loss_share = 0;  // of the largest loss in the step
  // In the order of the step. The parts that are not missing add up to step_s. Empty when no step
  // was timed or no phase was observed.
  std::vector<VerdictPart> parts;
};

// Explains a run on several devices against these `single` runs of its report. REQUIRES: `run` is
// in `report`.
Verdict explain(const Report& report, const Run& run, const Lender& lender);
std::vector<Verdict> explain(std::span<const RunRow> runs, const Lender& lender);

// The repetitions of a setting on several devices that timed steps, explained together: the median
// of each part, and the cause of at least two thirds of them as in one of these; else the causes
// are counted.
struct Explanation {
  std::vector<RunRow> runs;  // not empty
  Verdict verdict;
};
// Whether the run has a part in one: it is on several devices, timed steps, and is none of tune's.
bool is_explained(const RunRow& row);
// Of the settings in the order of `rows`. None for reports of `ddpbench tune`, which compares
// settings with each other and not with one device.
std::vector<Explanation> explanations(std::span<const RunRow> rows);

// "communication not hidden" where that is the cause of at least two thirds; else "no single cause
// in 7 runs: slower side by side in 4 (7 to 22 % of the step), waiting for input in 3 (9 %)".
std::string cause_words(std::span<const Verdict> verdicts);

// Fills `why` of all runs on several devices that timed steps, every repetition included. Clears it
// in other runs and in reports of `ddpbench tune`.
void fill_why(Report& report);

// A block for each of explanations() ("Why: ddp on 2 devices: ..."), wrapped to `width` columns (0:
// not wrapped). If they are from several files, each names its file. Empty without such runs.
std::string render_why(std::span<const RunRow> rows, int width);
std::string render_why(const Report& report, int width);

// ---- the first answer: which setting to take, how sure that is, and why it is not faster
// (answer.cpp; docs/metrics.md) ----

// The lines of the answer, without control characters; three where runs on several devices can be
// compared with one device, the conclusion of `ddpbench tune`, none for rows of several files. Then
// what else to choose among runs of the same work: the fastest that fits into `device_bytes`, the
// one that takes less memory and is about as fast, and the fastest approximate one.
std::vector<std::string> answer_lines(std::span<const RunRow> rows,
                                      std::optional<std::uint64_t> device_bytes = {});
// The same wrapped to `width` columns and to 100, with an empty line behind them where there are
// some.
std::string answer_text(std::span<const RunRow> rows, int width,
                        std::optional<std::uint64_t> device_bytes = {});

}  // namespace ddpbench::report
