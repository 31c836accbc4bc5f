// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Selects the runs that a chart draws, groups and names them. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

// Repetitions: one series on one number of devices. Points into the reports, which must outlive it.
struct RunGroup {
  std::size_t series = 0;
  int devices = 1;
  std::string name;  // "ddp, overlap=off on 4*"
  bool oversubscribed = false;
  std::vector<const Run*> runs;  // not empty
};

// The runs that a chart leaves out. Its note lists them by reason.
class LeftOut {
 public:
  void add(const Run& run, const std::string& reason);
  // `what`: "all_reduce of 4 KiB between 2 ranks".
  void add(const std::string& what, const std::string& reason);
  // "left out: ddp on 4 (no step was timed); ..."; empty when no run is left out.
  std::string note() const;
  bool empty() const { return reasons_.empty(); }

 private:
  // Each reason in the order of first use, with the names of its runs and how often each occurs.
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, int>>>> reasons_;
};

struct ChartRuns {
  std::vector<ChartSeries> series;
  std::vector<RunGroup> groups;  // by series, then devices
  LeftOut left_out;
  ChartCaption caption;              // without the notes on runs that are left out
  std::vector<std::string> no_room;  // notes on groups that are not shown
  std::string empty_reason;
};

inline constexpr std::size_t kMostSeries = 48;  // lines that a legend can name

// Why a chart cannot use `run`, which ended well; empty when it can.
using Unfit = std::string (*)(const Run& run);

// Groups the runs of all reports that ended well and for which `unfit` gives no reason. `what`: the
// beginning of the title, "Scaling".
ChartRuns chart_runs(std::span<const Report> reports, const std::string& what, Unfit unfit);

// Sets caption, series and empty_reason of `chart`.
void begin_chart(Chart& chart, const ChartRuns& runs);
// Adds the notes that every kind has: oversubscribed runs, and what is not shown.
void end_chart(Chart& chart, const ChartRuns& runs);

// Keeps the first `most` groups; the others get a note that names them.
void limit_groups(ChartRuns& runs, std::size_t most);

// "no room for 2 of 50 in a picture: ddp on 4, dp on 2; ...": how many of `all`, and which.
std::string no_room_note(const std::vector<std::string>& dropped, std::size_t all);

// Appends the note that a report was interrupted, where one was.
void note_interrupted(std::span<const Report> reports, ChartCaption& caption);

// What error bars mean where points are of `least` to `most` repetitions.
std::string repetitions_note(int least, int most);

// Whether `value` may be drawn: a negative or astronomic number of a file would spoil the axes.
bool plausible(double value);

// REQUIRES: not empty.
Spread spread(const std::vector<double>& values);

}  // namespace ddpbench::report
