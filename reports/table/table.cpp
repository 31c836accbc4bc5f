// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

#include "base/text.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// A column of the compact table. The ones with the highest `drop` go first in a narrow terminal; at
// 80 columns two of them have gone, at 60 four.
struct Slim {
  const char* column;
  int drop = 0;
  bool is_rare = false;  // only where a row has a cell
};
constexpr Slim kSlim[] = {
    {"step"},    {"rate"},       {"speedup"},   {"speedup-interval", 5, true}, {"efficiency", 4},
    {"comm", 3}, {"exposed", 2}, {"memory", 1}, {"to-accuracy", 0, true}};

std::string marks_of(const RunRow& row, Footnotes& footnotes) {
  std::vector<std::string> marks;
  if (row.is_equal) marks.emplace_back("=");
  for (const char letter : row.marks) marks.push_back(fmt::format("[{}]", letter));
  if (is_bare(*row.run)) marks.emplace_back(to_string(row.run->status));
  for (const std::string& note : row_notes(row)) marks.push_back(footnotes.mark(note));
  return joined(marks, " ");
}

// Whether --steps ended the epochs before they had seen the whole training set. An incomplete batch
// may be left out at the end of a whole one.
bool has_short_epochs(const RunRow& row) {
  const Run& run = *row.run;
  return !run.epochs.empty() && run.train_samples > 0 &&
         run.epochs.back().samples + run.global_batch_size <= run.train_samples;
}

TextTable table_of(std::span<const RunRow> marked, const Columns& columns,
                   const std::vector<Warning>& warnings, std::vector<std::string>& notes) {
  TextTable table;
  Footnotes footnotes;
  for (const Column* column : columns) {
    const auto cell = [column](const RunRow& row) { return printable(column->cell(row)); };
    table.columns.push_back({"", column->heading, column->is(kLeft), 0, mapped(marked, cell)});
  }
  TextColumn marks{.left = true};
  marks.cells = mapped(marked, [&](const RunRow& row) { return marks_of(row, footnotes); });
  if (std::ranges::count(marks.cells, "") < std::ssize(marked))
    table.columns.push_back(std::move(marks));
  if (const auto equal = std::ranges::count_if(marked, &RunRow::is_equal); equal > 0) {
    notes.push_back(
        fmt::format("= the same work on one device{}: these {} show how far runs differ by chance",
                    from_several_files(marked) ? ", within each report" : "", equal));
  }
  for (const Warning& warning : warnings) notes.push_back(warning.line());
  std::ranges::move(footnotes.lines(), std::back_inserter(notes));
  if (std::ranges::count(columns, "epoch", &Column::name) > 0 &&
      std::ranges::any_of(marked, has_short_epochs))
    notes.emplace_back("epoch s: of the steps that --steps allows, not of all samples");
  if (std::ranges::count(columns, "to-accuracy", &Column::name) > 0)
    notes.emplace_back("to acc.: training time to the accuracy asked for, without evaluation");
  return table;
}

// By the number of devices, then the exact ones before the approximate ones, then the fastest
// first; runs without a rate come last.
std::vector<RunRow> in_order(std::vector<RunRow> rows) {
  const Field& rate = find_column("rate")->fields.front();
  std::ranges::stable_sort(rows, {}, [&rate](const RunRow& row) {
    return std::tuple(row.run->world_size, row.run->verification.is_approximate(),
                      -rate.value(row).number().value_or(0));
  });
  return rows;
}

// Notes with marks share a line where they fit.
std::string notes_text(const std::vector<std::string>& notes, std::size_t limit) {
  constexpr std::string_view kBetween = "  ";
  const auto is_marked = [](const std::string& note) {
    return note.starts_with('(') || note.starts_with('[');
  };
  std::vector<std::string> lines;
  for (const std::string& note : notes) {
    const bool both = is_marked(note) && !lines.empty() && is_marked(lines.back());
    if (both && lines.back().size() + kBetween.size() + note.size() <= limit)
      lines.back().append(kBetween).append(note);
    else
      lines.push_back(note);
  }
  return joined(lines, "", [limit](const std::string& line) {
    return line.size() > limit ? wrap(line, limit, 4) : line + "\n";
  });
}

// The table's lines, and below them its notes and what all rows have in common.
std::string with_notes(const std::string& table, std::span<const RunRow> rows,
                       std::vector<std::string> notes, std::size_t limit) {
  const bool intervals = table.find("(a..b)") != std::string::npos;
  notes.insert(notes.end(), {caption(rows), last_words(rows, intervals)});
  std::erase(notes, "");
  return table + '\n' + notes_text(notes, limit);
}

}  // namespace

std::string agreement(std::span<const RunRow> rows) {
  std::size_t agree = 0, made = 0;
  int steps = 0;
  for (const RunRow& row : rows) {
    if (is_bare(*row.run)) continue;
    ++made;
    const Verification& verified = verification_of(row);
    if (verified.status != "passed" && verified.status != "reference") continue;
    ++agree;
    steps = std::max(steps, verified.steps);
  }
  if (steps == 0) return {};
  return fmt::format("{} with one device ({}).",
                     agree < made ? fmt::format("{} of {} agree", agree, made)
                     : made == 1  ? "It agrees"
                                  : fmt::format("All {} agree", agree),
                     counted(steps, "step"));
}

std::string last_words(std::span<const RunRow> rows, bool shows_intervals) {
  constexpr int kEnough = kFewestForInterval + 1;
  std::string noise;
  if (shows_intervals) {
    noise = fmt::format("(a..b): smallest and largest; from {} repetitions on a 95 % interval",
                        kFewestForInterval);
  } else if (std::ranges::none_of(rows, [](const RunRow& row) {
               return row.repeated != nullptr || row.run->repetition > 0 ||
                      !beyond_resuming(*row.report).empty();
             })) {
    const std::string time = time_of(rows, kEnough);
    if (!time.empty())
      noise = fmt::format("One run each: --repetitions={} gives intervals{}.", kEnough, time);
  }
  const std::string agree = agreement(rows);
  return agree + (agree.empty() || noise.empty() ? "" : " ") + noise;
}

std::string time_of(std::span<const RunRow> rows, int repetitions) {
  double total_s = 0;
  for (const RunRow& row : rows) {
    if (row.report->status == Status::interrupted) return "";  // it lacks runs
    if (row.run->step.time_s && row.run->repetition == 0)
      total_s += row.run->time.total_s.value.value_or(0);
  }
  return total_s == 0 ? "" : fmt::format(" (about {})", duration_words(repetitions * total_s));
}

TextTable run_table(std::span<const RunRow> rows, const Columns& columns,
                    std::vector<std::string>& notes) {
  const std::vector<Warning> warnings = row_warnings(rows);
  return table_of(marked_rows(rows, warnings), columns, warnings, notes);
}

std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width) {
  if (rows.empty()) return "no runs\n";
  std::vector<std::string> notes;
  const std::string table = render_rows(run_table(rows, columns, notes), 0);
  return with_notes(table, rows, notes, static_cast<std::size_t>(text_columns(width)));
}

std::string render_table(const Report& report, int width) {
  if (!report.collectives.empty()) return render_collectives(report, width);
  const CondensedRows condensed(all_runs(report));
  return table_text(condensed.rows(), usual_columns(condensed.rows()), width);
}

TextTable compact_table(std::span<const RunRow> rows, std::vector<std::string>& notes) {
  const std::vector<Warning> warnings = row_warnings(rows);
  const std::vector<RunRow> marked = in_order(marked_rows(rows, warnings));
  Columns columns = name_columns(rows);
  std::vector<int> drops(columns.size());
  for (const Slim& slim : kSlim) {
    const Column* const column = find_column(slim.column);
    const auto has_cell = [column](const RunRow& row) {
      const std::string cell = column->cell(row);
      return !cell.empty() && cell != "-";
    };
    if (slim.is_rare && std::ranges::none_of(marked, has_cell)) continue;
    columns.push_back(column);
    drops.push_back(slim.drop);
  }
  TextTable table = table_of(marked, columns, warnings, notes);
  for (std::size_t c = 0; c < drops.size(); ++c) table.columns[c].drop = drops[c];
  return table;
}

std::string compact_text(std::span<const RunRow> rows, int width) {
  if (rows.empty()) return "no runs\n";
  const auto limit = static_cast<std::size_t>(text_columns(width));
  std::vector<std::string> notes;
  const std::string table = render_rows(compact_table(rows, notes), limit);
  return with_notes(table, rows, notes, limit);
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

TextTable history_table(const History& history, const HistoryLine& line) {
  TextTable table{{{"", "commit", true},
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

}  // namespace

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
