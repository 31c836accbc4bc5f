// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Why a run on several devices is not faster: its step split into parts that add up to the step
// time, the largest loss against `single` named in a sentence, and what would help. Works on a
// report alone; docs/metrics.md ("Why") has the formulas.
#pragma once

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
  std::string title;  // "exposed communication"
  Figure seconds;     // of the step; missing with its reason
  Figure share;       // seconds / step time
  // What the same part takes beyond `single` (in strong scaling beyond single's / world size); may
  // be below 0. Missing without a baseline.
  Figure lost_s;
};

struct Verdict {
  Cause cause = Cause::unknown;
  std::string sentence;  // "exposed all-reduce is 41 % of the step: ..."; no full stop
  std::string advice;    // what would help, or empty
  double step_s = 0;     // median step time; 0 when no step was timed
  // In the order of the step; those that are there add up to step_s. Empty when no step was timed
  // or no phase observed.
  std::vector<VerdictPart> parts;
};

// REQUIRES: `run` is one of `report`'s, on any number of devices. A run on one device is `scales`
// with a sentence that says so.
Verdict explain(const Report& report, const Run& run);
// As above, but against the `single` runs of another report, `lender` (report_view.h,
// complete_scaling).
Verdict explain(const Report& report, const Run& run, const Report& lender);

// The runs on several devices that timed steps, each cell once: of its repetitions, the one with
// the median step time. In the report's order; points into `report`. Empty for reports of
// `ddpbench tune`, which compares settings with each other, not with one device.
std::vector<const Run*> median_repetitions(const Report& report);

// Fills `why` of the runs that are explained, every repetition of them; clears it elsewhere.
void fill_why(Report& report);

// A block a run on several devices ("Why: ddp on 2 devices: ..."), each wrapped to `width` columns
// (0: not wrapped). Repetitions are represented by the one with the median step time. Empty without
// such runs.
std::string render_why(const Report& report, int width);
// As above for these rows, in their order. The name of their file comes first where they are from
// several.
// A run that was measured against another one of `files` is explained with that.
std::string render_why(std::span<const RunRow> rows, std::span<const ReportFile> files, int width);

}  // namespace ddpbench::report
