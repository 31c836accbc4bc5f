// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/text.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/columns.h"

namespace ddpbench::report {
namespace {

// The number of leading key columns. 0 when there are key columns elsewhere, too: a row must always
// say which run it is, whichever cells it leaves out.
std::size_t leading_keys(const Columns& columns) {
  const auto end =
      std::ranges::find_if(columns, [](const Column* column) { return !column->is(kKey); });
  const bool scattered =
      std::any_of(end, columns.end(), [](const Column* column) { return column->is(kKey); });
  return scattered ? 0 : static_cast<std::size_t>(end - columns.begin());
}

bool any_run(std::span<const RunRow> rows, bool (*holds)(const Run&)) {
  return std::ranges::any_of(rows, [holds](const RunRow& row) { return holds(*row.run); });
}

bool any_column(const Columns& columns, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(columns, [names](const Column* column) {
    return std::ranges::find(names, column->name) != names.end();
  });
}

}  // namespace

std::string accuracy_meaning(std::span<const RunRow> rows) {
  std::vector<std::string> targets;
  for (const RunRow& row : rows) {
    if (!row.run->until_accuracy) continue;
    const AccuracyTarget& wanted = *row.run->until_accuracy;
    std::string words = wanted.is_of_miou()
                            ? "the test set had " + accuracy_words(wanted)
                            : accuracy_words(wanted) + " of the test set were right";
    if (std::ranges::find(targets, words) == targets.end()) targets.push_back(std::move(words));
  }
  if (targets.empty()) return {};
  return fmt::format(
      "to acc.: training time until {} at the end of an epoch; evaluation is left out",
      fmt::join(targets, " or "));
}

std::string noise_words(std::span<const RunRow> rows, bool shows_intervals) {
  constexpr int kEnough = kFewestForInterval + 1;
  if (shows_intervals) {
    return fmt::format(
        "(a..b): smallest and largest; a 95 % interval from {} repetitions on ({} for speed-up and "
        "efficiency)",
        kFewestForInterval, kEnough);
  }
  if (is_condensed(rows)) return {};
  for (const RunRow& row : rows)
    if (row.run->repetition > 0 || !beyond_resuming(*row.report).empty()) return {};
  const std::string time = time_of(rows, kEnough);
  if (time.empty()) return {};
  return fmt::format("One run each: --repetitions={} gives intervals{}.", kEnough, time);
}

std::string time_of(std::span<const RunRow> rows, int repetitions) {
  double total_s = 0;
  for (const RunRow& row : rows)
    if (row.run->step.time_s && row.run->repetition == 0)
      total_s += row.run->time.total_s.value.value_or(0);
  return total_s == 0 ? "" : fmt::format(" (about {})", duration_words(repetitions * total_s));
}

TextTable run_table(std::span<const RunRow> rows, const Columns& columns, Footnotes& notes) {
  TextTable table;
  table.keys = leading_keys(columns);
  for (const Column* column : columns) {
    table.columns.push_back({column->top, column->bottom, column->is(kLeft), column->is(kJoined)});
  }
  for (const RunRow& row : marked_rows(rows, row_warnings(rows))) {
    const auto told = [&row](const Column* column) {
      return has_cell_when_bare(*column, *row.run);
    };
    const bool bare = is_bare(*row.run) && table.keys > 0 && !std::ranges::all_of(columns, told);
    table.instead.emplace_back();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const bool shown = !bare || told(columns[c]);
      if (!shown && table.instead.back().empty()) {  // its mark has its turn from left to right
        table.instead.back() =
            fmt::format("{} {}", to_string(row.run->status), notes.mark(status_note(*row.run)));
      }
      table.columns[c].cells.push_back(shown ? printable(columns[c]->cell(row, notes)) : "");
    }
  }
  return table;
}

std::vector<std::string> explanations(std::span<const RunRow> rows, const Columns& columns,
                                      const Footnotes& notes) {
  std::vector<std::string> lines;
  if (any_column(columns, {"devices"}) &&
      any_run(rows, [](const Run& run) { return run.servers > 0; })) {
    lines.emplace_back("+n: n parameter servers beside the workers");
  }
  if (any_column(columns, {"devices", "speedup", "efficiency"}) &&
      any_run(rows, [](const Run& run) { return run.oversubscribed; })) {
    lines.emplace_back("*: oversubscribed, more compute threads than cores; no scaling is shown");
  }
  if (any_column(columns, {"to-accuracy", "to-accuracy-interval"}))
    lines.push_back(accuracy_meaning(rows));
  const bool intervals =
      is_condensed(rows) && any_column(columns, {"step-interval", "speedup-interval",
                                                 "efficiency-interval", "to-accuracy-interval"});
  if (intervals || any_column(columns, {"step", "rate", "speedup", "efficiency"}))
    lines.push_back(noise_words(rows, intervals));
  std::erase(lines, "");
  std::ranges::move(notes.lines(), std::back_inserter(lines));
  return lines;
}

std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width) {
  if (rows.empty()) return "no runs\n";
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::string text = wrap(caption(rows), limit, 2) + '\n' + render_rows(table, 0);
  const std::vector<std::string> below = explanations(rows, columns, notes);
  if (!below.empty()) text += '\n';
  for (const std::string& line : below) text += wrap(line, limit, 4);
  for (const std::string& line : remarks(rows)) text += wrap(line, limit, 4);
  return text;
}

std::string render_table(const Report& report, int width) {
  if (!report.collectives.empty()) return render_collectives(report, width);
  const CondensedRows condensed(all_runs(report));
  return table_text(condensed.rows(), table_columns(condensed.rows()), width);
}

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

}  // namespace

TextTable history_table(const History& history, const HistoryLine& line) {
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
  return table;
}

std::string render_history(const History& history, int width) {
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  if (history.lines.empty()) return "no runs that ended well\n";
  std::string text;
  for (const HistoryLine& line : history.lines) {
    text += wrap(printable(line.name), limit, 4);
    text += render_rows(history_table(history, line), limit) + '\n';
  }
  text += wrap(
      "(a..b): smallest and largest; a 95 % interval from 6 repetitions on. A change beyond it "
      "need not be one of the program: ddpbench check judges two commits that were measured in "
      "turn.",
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
