// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Selects the runs that a chart draws, groups and names them. Private to reports/.
#pragma once

#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/data/report_view.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {

// Points into the reports, which must outlive it.
struct RunGroup : ChartGroup {
  std::vector<const Run*> runs = {};  // not empty
};

// The devices of all repetitions.
inline auto devices_of(const RunGroup& group) {
  return group.runs | std::views::transform(&Run::devices) | std::views::join;
}

// The runs that a chart leaves out. Its note lists them by reason.
class LeftOut {
 public:
  // `what`: "ddp on 4", "all_reduce of 4 KiB between 2 ranks".
  void add(const std::string& what, const std::string& reason);
  // "left out: ddp on 4 (no step was timed); ..."; empty when no run is left out.
  std::string note() const;
  bool empty() const { return reasons_.empty(); }

 private:
  using Reason = std::pair<std::string, std::string>;  // and the name of the run
  std::vector<Reason> reasons_;
};

struct ChartRuns {
  std::vector<ChartSeries> series;
  std::vector<RunGroup> groups;  // by series, then devices
  std::vector<RunRow> drawn;     // the runs of all groups
  LeftOut left_out;
  ChartCaption caption;  // without the notes on runs that are left out
  std::string no_room;   // the note on groups beyond `most`; empty: there are none
  std::string empty_reason;
};

// For how many runs a picture has room. Lines of the scaling lie upon each other.
inline constexpr std::size_t kMostGroups = 60, kAnyGroups = ~std::size_t{0};

// Why a chart cannot use `run`, which ended well; empty when it can.
using Unfit = std::string (*)(const Run& run);

// The first `most` groups of the runs of all reports that ended well and for which `unfit` gives no
// reason. `what`: the beginning of the title, "Scaling".
ChartRuns chart_runs(std::span<const Report> reports, const std::string& what, Unfit unfit,
                     std::size_t most = kMostGroups);

// Adds the notes that every kind has: oversubscribed runs, and what is not shown.
void add_last_notes(const ChartRuns& runs, ChartCaption& caption);

// The chart of runs that `fill` draws; with nothing to draw it has the reason alone.
template <typename Data, typename Fill>
Data chart_of(const char* id, const char* heading, const ChartRuns& runs, Fill fill) {
  Data chart;
  chart.id = id;
  chart.heading = heading;
  chart.caption = runs.caption;
  chart.series = runs.series;
  chart.empty_reason = runs.empty_reason;
  if (!chart.empty_reason.empty()) return chart;
  fill(chart);
  add_last_notes(runs, chart.caption);
  return chart;
}

// Appends the note that a report was interrupted, where one was.
void note_interrupted(std::span<const Report> reports, ChartCaption& caption);

// What the error bars of these points mean.
std::string repetitions_note(const std::vector<Spread>& points);

// Whether `value` may be drawn: a negative or astronomic number of a file would spoil the axes.
bool plausible(double value);

// REQUIRES: not empty.
Spread spread(const std::vector<double>& values);

// The index of `name` in `names`, at whose end it is added where it is new.
std::size_t index_in(std::vector<std::string>& names, const std::string& name);
// "machine A" of the first of `machines`, ..., "Z", "A1", ...; adds the report's where it is new.
// Machines have long names, so lines carry letters.
std::string lettered_machine(std::vector<std::string>& machines, const Report& report);
// All machines of these reports, each once, with their letters.
std::string machines_text(std::span<const Report* const> reports);

}  // namespace ddpbench::report
