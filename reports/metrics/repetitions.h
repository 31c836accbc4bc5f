// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Repetitions of one setting: which runs belong together, how well their median is known, and rows
// that stand for all of them. The independent unit is the repetition, not the step
// (docs/metrics.md, "Repetitions").
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"

namespace ddpbench::report {

// From so many values on, the interval of a comparison is narrower than the range of the values.
inline constexpr int kFewestForInterval = 6;

// The indices of the rows of each cell; cells are in the order of their first rows. Runs of one
// report are repetitions of each other where their cell keys are equal, and so are the device
// models if both are known. A run that failed early does not know its model.
std::vector<std::vector<std::size_t>> repetition_groups(std::span<const RunRow> rows);

// Fills report.cells in the order of their first runs: a summary of each group of repetitions. With
// `wanted_width` (--until-ci, relative) cells with a wider interval, or none, are noisy. Leaves it
// empty when no run was repeated and no width wanted.
void fill_cells(Report& report, std::optional<double> wanted_width);

// How far a figure reaches over the repetitions. `low` and `high` have the same reason where they
// are missing.
struct MedianSpread {
  Figure low, high;
  bool is_interval = false;  // of kConfidence; else the least and the most
};

// The repetitions of one setting in one report.
struct RepeatedRuns {
  std::vector<const Run*> runs;   // all of them; not empty
  std::vector<const Run*> timed;  // that ended well with timed steps
  // The timed one with the median step time, or the first of all if none was timed.
  const Run* middle = nullptr;
  Verification verification;  // of the first that failed it, if one did
  Figure time_to_accuracy;    // the median; missing where a repetition did not reach the accuracy
  MedianSpread step_s, speedup;
  std::string note;  // on repetitions that did not end well; empty: all did
};

// The median's kConfidence interval: that of the geometric mean (compare_ratios), widened to hold
// the median. The least and the most of fewer than kFewestForInterval values, or where one is not
// positive; missing for one value.
MedianSpread median_spread(const std::vector<double>& values);
// The same of median(rates) / median(divisors), which are independent of each other: the interval
// needs kFewestForInterval of each.
MedianSpread quotient_spread(const std::vector<double>& rates, const std::vector<double>& divisors);

// Rows for settings, in the order of their first runs. Owns what the rows point to, beside what
// those of the runs point to.
class CondensedRows {
 public:
  // `rows`: of runs. Those of one report that are repetitions of each other become one row; a run
  // that has no other keeps its own.
  explicit CondensedRows(std::span<const RunRow> rows);
  CondensedRows(const CondensedRows&) = delete;
  CondensedRows& operator=(const CondensedRows&) = delete;

  const std::vector<RunRow>& rows() const { return rows_; }

 private:
  std::deque<RepeatedRuns> repeated_;
  std::vector<RunRow> rows_;
};

// The runs that a row stands for, and what verification found in them.
std::vector<const Run*> runs_of_row(const RunRow& row);
const Verification& verification_of(const RunRow& row);

}  // namespace ddpbench::report
