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
#include "reports/table/table_notes.h"

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

// What the brackets of condensed rows mean; or that one repetition says nothing of the noise.
std::string noise_explanation(std::span<const RunRow> rows, const Columns& columns) {
  if (is_condensed(rows)) {
    if (!any_column(columns, {"step-interval", "speedup-interval", "efficiency-interval",
                              "to-accuracy-interval"})) {
      return {};
    }
    const bool confident = std::ranges::any_of(rows, [](const RunRow& row) {
      return row.repeated != nullptr && row.repeated->step_s.kind == SpreadKind::confidence;
    });
    return fmt::format("(a..b): over repetitions, {}least and most of fewer than {} repetitions",
                       confident ? "95 % interval of the median; " : "", kFewestForInterval);
  }
  const bool measured = any_run(rows, [](const Run& run) { return run.step.time_s.has_value(); });
  const bool repeated = any_run(rows, [](const Run& run) { return run.repetition > 0; });
  if (!measured || repeated || !any_column(columns, {"step", "rate", "speedup", "efficiency"})) {
    return {};
  }
  return fmt::format(
      "one repetition of each: how much runs differ by noise is unknown; --repetitions={} gives "
      "intervals",
      kFewestForInterval);
}

// What the time to an accuracy is the time to.
std::string accuracy_explanation(std::span<const RunRow> rows) {
  std::vector<std::string> targets;
  for (const RunRow& row : rows) {
    if (!row.run->until_accuracy) continue;
    std::string words = accuracy_words(row.run->until_accuracy->target);
    if (std::ranges::find(targets, words) == targets.end()) targets.push_back(std::move(words));
  }
  if (targets.empty()) return {};
  return fmt::format(
      "to acc.: training time until {} of the test set were right at the end of an epoch; "
      "evaluation is left out",
      fmt::join(targets, " or "));
}

}  // namespace

TextTable run_table(std::span<const RunRow> rows, const Columns& columns, Footnotes& notes) {
  TextTable table;
  table.keys = leading_keys(columns);
  for (const Column* column : columns) {
    table.columns.push_back({column->top, column->bottom, column->is(kLeft), column->is(kJoined)});
  }
  for (const RunRow& row : marked_rows(rows)) {
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
  if (any_column(columns, {"to-accuracy", "to-accuracy-interval"})) {
    const std::string accuracy = accuracy_explanation(rows);
    if (!accuracy.empty()) lines.push_back(accuracy);
  }
  const std::string noise = noise_explanation(rows, columns);
  if (!noise.empty()) lines.push_back(noise);
  for (std::size_t i = 0; i < notes.reasons().size(); ++i) {
    lines.push_back(printable(fmt::format("({}) {}", i + 1, notes.reasons()[i])));
  }
  return lines;
}

std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width) {
  if (rows.empty()) return "no runs\n";
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::string text = wrap(caption(rows), limit, 2) + '\n' + render_blocks(table, limit);
  const std::vector<std::string> below = explanations(rows, columns, notes);
  if (!below.empty()) text += '\n';
  for (const std::string& line : below) text += wrap(line, limit, 4);
  return text;
}

std::string render_table(const Report& report, int width) {
  if (!report.collectives.empty()) return render_collectives(report, width);
  const CondensedRows condensed(all_runs(report));
  const std::vector<RunRow>& rows = condensed.rows();
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  return table_text(rows, table_columns(rows), width) + warning_lines(rows, limit);
}

}  // namespace ddpbench::report
