// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>

#include "base/text.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string step_text(const HistoryPoint& point) {
  if (!point.spread.low.value || !point.spread.high.value) return ms(point.step_s);
  return fmt::format("{} ({}..{})", ms(point.step_s), ms(*point.spread.low.value),
                     ms(*point.spread.high.value));
}

// The day, or that it is not known.
std::string measured_text(const HistoryCommit& commit) {
  return commit.started_at.empty() ? "?" : printable(commit.started_at.substr(0, 10));
}

std::string line_text(const History& history, const HistoryLine& line, std::size_t width) {
  TextTable table{1,
                  {{"", "commit", true},
                   {"", "measured", true},
                   {"", "reps"},
                   {"step ms", "median (interval)"},
                   {"", "change"}}};
  const HistoryPoint* before = nullptr;
  for (const HistoryPoint& point : line.points) {
    const HistoryCommit& commit = history.commits[point.commit];
    const std::string change =
        before == nullptr ? ""
                          : fmt::format("{:+.1f} %", 100 * (point.step_s / before->step_s - 1));
    table.add_row({printable(commit.name), measured_text(commit), std::to_string(point.repetitions),
                   step_text(point), change});
    before = &point;
  }
  return wrap(printable(line.name), width, 4) + render_blocks(table, width);
}

}  // namespace

std::string render_history(const History& history, int width) {
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  if (history.lines.empty()) return "no runs that ended well\n";
  std::string text;
  for (const HistoryLine& line : history.lines) {
    text += line_text(history, line, limit) + '\n';
  }
  text += wrap(
      "(a..b): over repetitions, 95 % interval of the median; least and most of fewer than 6. A "
      "change beyond it need not be one of the program: ddpbench check judges two commits that "
      "were "
      "measured in turn.",
      limit, 4);
  if (!history.measured_order) {
    text += wrap(order_words(history) + " (import: --measured-at).", limit, 4);
  }
  if (history.left_out > 0) {
    text += wrap(fmt::format("left out: {} that did not end well, disagree with one device or have "
                             "a planted fault",
                             counted(history.left_out, "run")),
                 limit, 4);
  }
  return text;
}

}  // namespace ddpbench::report
