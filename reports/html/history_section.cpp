// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The section of pages about several commits: the median step of each setting at each of them.
#include <fmt/format.h>

#include "reports/html/sections.h"
#include "reports/metrics/history.h"
#include "reports/pictures/picture_history.h"

namespace ddpbench::report::html {
namespace {

using pictures::fixed;

Cell end_cell(const Figure& end) {
  return end.value ? cell(*end.value, fixed(1e3 * *end.value, 3)) : missing_cell();
}

Table history_table(const History& history) {
  Table table{"The median step of each setting at each commit, in ms",
              {{"setting", true},
               {"commit", true},
               {"measured", true},
               {"repetitions"},
               {"median"},
               {"low end"},
               {"high end"},
               {"change, %", false, "from the commit before"}},
              {},
              {}};
  for (const HistoryLine& line : history.lines) {
    const HistoryPoint* before = nullptr;
    for (const HistoryPoint& point : line.points) {
      const HistoryCommit& commit = history.commits[point.commit];
      const double change = before == nullptr ? 0 : 100 * (point.step_s / before->step_s - 1);
      table.rows.push_back(
          {cell(line.name), cell(commit.name),
           commit.started_at.empty() ? missing_cell() : cell(commit.started_at),
           cell(static_cast<double>(point.repetitions), std::to_string(point.repetitions)),
           cell(point.step_s, fixed(1e3 * point.step_s, 3)), end_cell(point.spread.low),
           end_cell(point.spread.high),
           before == nullptr ? missing_cell() : cell(change, fixed(change, 1))});
      before = &point;
    }
  }
  return table;
}

}  // namespace

void write_history(Markup& page, const HtmlInput& input) {
  const History history = history_of(rows_of(input));
  if (history.commits.size() < 2 || history.lines.empty()) return;
  open_section(page, "history", "Over commits");
  page.leaf("p", {{"class", "about"}},
            order_words(history) +
                ". Whether a change is one of the program is for ddpbench check to say, of two "
                "commits that were measured in turn.");
  write_figure(page, pictures::history_picture(history), history_table(history));
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
