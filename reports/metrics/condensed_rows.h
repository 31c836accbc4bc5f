// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Repetitions side by side, condensed: a row for each setting with the medians over its repetitions
// and how far these reach. docs/metrics.md ("Repetitions") says which interval is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"

namespace ddpbench::report {

enum class SpreadKind : std::uint8_t { none, least_and_most, confidence };
std::string_view to_string(SpreadKind kind);  // "", "least and most", "95 % confidence"

// How far a figure reaches over the repetitions. `low` and `high` have the same reason where they
// are missing.
struct MedianSpread {
  Figure low, high;
  SpreadKind kind = SpreadKind::none;
};

// The repetitions of one setting in one report.
struct RepeatedRuns {
  std::vector<const Run*> runs;  // all of them; not empty
  std::size_t timed = 0;         // that ended well with timed steps
  // A run that stands for all. It is the timed repetition with the median step time, but its
  // figures are the medians over the timed repetitions; of peaks of memory and the longest step,
  // the largest. It has no step samples. If none was timed, it is the first repetition as it is.
  Run median;
  MedianSpread step_s, speedup, efficiency, to_accuracy_s;
  std::string note;  // on repetitions that did not end well; empty: all did
  // About repetitions that did not reach the accuracy (--until-accuracy) although the median did.
  std::string accuracy_note;
};

// 95 % confidence interval of the median from kFewestForInterval values on; the least and the most
// of fewer; missing for one.
MedianSpread median_spread(const std::vector<double>& values);

// The spread of median(values) / median(divisors), which are independent of each other. From seven
// values on each side the interval has 95 % confidence: it divides the ends of two intervals whose
// probabilities to err add up to at most 5 %. It needs no assumption on how the values are
// distributed. Otherwise it is the least and the most that the values allow.
MedianSpread quotient_spread(const std::vector<double>& values,
                             const std::vector<double>& divisors);

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

// The runs that a row stands for.
std::vector<const Run*> runs_of_row(const RunRow& row);

}  // namespace ddpbench::report
