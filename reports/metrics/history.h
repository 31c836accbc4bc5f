// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The median step time of each setting over the commits of many reports. It does not judge: the
// gate (reports/gate) decides whether a difference is a change, and other tools find the commit of
// a change (docs/ci.md).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report_view.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {

// A commit of the program, or a report whose commit is not known.
struct HistoryCommit {
  std::string name;        // "1a2b3c4d5e6f", "1a2b3c4d5e6f with changes"; else the report's file
  std::string started_at;  // of its first report; empty: not known of all its reports
};

// All repetitions of one setting at one commit.
struct HistoryPoint {
  std::size_t commit = 0;  // index into History::commits
  std::size_t repetitions = 0;
  double step_s = 0;  // the median over the repetitions
  MedianSpread spread;
};

// A setting: equal in all that makes runs repetitions of each other, and on the same hosts.
struct HistoryLine {
  std::string name;                  // "ddp on 2 devices (batch 32 a device)"
  std::vector<HistoryPoint> points;  // in the order of the commits; not empty
};

struct History {
  // In the order in which they were measured; where that is not known of all, in that of the rows.
  std::vector<HistoryCommit> commits;
  bool measured_order = true;
  std::vector<HistoryLine> lines;  // in the order of their first runs
  std::size_t left_out = 0;  // runs that did not end well, disagree with one device or are injected
};

// `rows`: runs of one or several reports, not condensed.
History history_of(std::span<const RunRow> rows);

// "Commits are in the order in which they were measured", or what stands in for that.
std::string order_words(const History& history);

}  // namespace ddpbench::report
