// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table that stands below the first answer: what is needed to choose, in at most 100 columns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "base/text.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/table.h"

namespace ddpbench::report {
namespace {

// A column of the full table under a short heading. The ones with the highest `drop` go first in a
// narrow terminal; at 80 columns two of them have gone, at 60 four.
struct Slim {
  const char* column;
  const char* heading;
  int drop = 0;
};
constexpr Slim kSlim[] = {{"step", "step ms"},         {"rate", "samples/s"},
                          {"speedup", "speed-up"},     {"speedup-interval", "(a..b)", 5},
                          {"efficiency", "eff. %", 4}, {"comm", "comm ms", 3},
                          {"exposed", "exposed", 2},   {"memory", "MiB/device", 1},
                          {"to-accuracy", "to acc. s"}};

bool is_scaling(const Slim& slim) {
  return std::string_view(slim.column) == "speedup" ||
         std::string_view(slim.column) == "efficiency";
}

std::optional<double> number_of(const std::string& column, const RunRow& row) {
  return find_column(column)->fields.front().value(row).number();
}

std::string spread_text(const RunRow& row) {
  if (row.repeated == nullptr || !row.doubt.empty()) return "";
  const auto& [low, high, kind] = row.repeated->speedup;
  return low.value && high.value ? fmt::format("{:.2f}..{:.2f}", *low.value, *high.value) : "";
}

std::string slim_cell(const Slim& slim, const RunRow& row) {
  const std::string name = slim.column;
  if (name == "speedup-interval") return spread_text(row);
  std::optional<double> value = number_of(name, row);
  if (name == "memory") value = std::max(value, number_of("other-memory", row));
  if (!value || (is_scaling(slim) && !row.doubt.empty())) return "-";
  const auto [unit, decimals] = find_column(name)->format;
  const double shown = *value / unit;
  const bool is_short = name == "rate" || (name == "step" && shown >= 100);
  return is_short ? short_number(shown) : fmt::format("{:.{}f}", shown, decimals);
}

// Beyond the marks of warnings: what is to be known of the row before its figures are used.
std::vector<std::string> notes_of(const RunRow& row) {
  const Run& run = *row.run;
  std::vector<std::string> notes;
  constexpr double kStarved = 0.2;  // the loader works beside the steps: mostly none waits for it
  const double waits = number_of("wait", row).value_or(0) / number_of("step", row).value_or(1);
  if (waits >= kStarved)
    notes.push_back(
        fmt::format("{:.0f} % of a step is waiting for the loader{}", 100 * waits,
                    row.report->generator.is_import() ? "" : ": try more --loader-workers"));
  if (run.status != Status::ok && !is_bare(run)) notes.push_back(status_note(run));
  if (const Verification& verified = verification_of(row); verified.status == "failed")
    notes.push_back("does NOT agree with one device: " + verified.reason);
  if (const Verification& verified = verification_of(row); verified.status == "not_applicable")
    notes.push_back(row.apart.empty() ? "not verified: " + verified.reason
                                      : "approximate: " + row.apart);
  if (run.evaluation && run.evaluation->accuracy.value && !is_bare(run))
    notes.push_back(fmt::format("evaluated, not trained: loss {:.4f}, accuracy {:.2f} % of {}",
                                run.evaluation->loss.value.value_or(NAN),
                                100 * *run.evaluation->accuracy.value,
                                counted(run.evaluation->samples, "test sample")));
  const FieldValue until = find_column("to-accuracy")->fields.front().value(row);
  if (run.until_accuracy && !is_bare(run) && until.value.index() == 0)
    notes.push_back(until.reason);
  if (!run.injected.empty()) notes.push_back("injected: " + run.injected);
  if (run.predicted) notes.emplace_back(kPredictedReason);
  for (const std::string& words : {stage_idle_words(run), composed_words(run)})
    if (!words.empty()) notes.push_back(words);
  if (run.oversubscribed) notes.emplace_back("more compute threads than cores: not ranked");
  if (row.repeated != nullptr && !row.repeated->note.empty()) notes.push_back(row.repeated->note);
  if (run.scaling && run.scaling->baseline != kBaseline)
    notes.push_back("speed-up against " + run.scaling->baseline);
  if (!row.doubt.empty() && !row.is_warned) notes.push_back(row.doubt);
  return notes;
}

std::string marks_of(const RunRow& row, bool equal, Footnotes& footnotes) {
  std::vector<std::string> marks;
  if (equal) marks.emplace_back("=");
  for (const char letter : row.marks) marks.push_back(fmt::format("[{}]", letter));
  for (const std::string& note : notes_of(row)) marks.push_back(footnotes.mark(note));
  return fmt::format("{}", fmt::join(marks, " "));
}

// By the number of devices, then the exact ones before the approximate ones, then the fastest
// first; runs without a rate come last.
std::vector<RunRow> in_order(std::vector<RunRow> rows) {
  std::ranges::stable_sort(rows, {}, [](const RunRow& row) {
    return std::tuple(row.run->world_size, row.run->verification.is_approximate(),
                      -number_of("rate", row).value_or(0));
  });
  return rows;
}

std::vector<RunRow> single_runs(std::span<const RunRow> rows) {
  std::vector<RunRow> all;
  for (const RunRow& row : rows) {
    for (const Run* run : runs_of_row(row)) {
      all.push_back(row);
      all.back().run = run;
      all.back().repeated = nullptr;
    }
  }
  return all;
}

bool has_spread(const RunRow& row) { return !spread_text(row).empty(); }

// The runs that do the same work on one device, of each report by itself. Sets what approximate
// rows have apart from its others.
std::set<const Run*> equal_runs(std::span<RunRow> rows) {
  std::set<const Run*> equal;
  for (const auto& [report, own] : grouped(rows, [](const RunRow& row) { return row.report; })) {
    const std::vector<Contest> all = contests(single_runs(own));
    equal.merge(find_yardstick(all).runs);
    for (const Contest& contest : all) {
      const auto is_doubtful = [&](const RunRow& row) {
        return !row.doubt.empty() && !contest.standings.empty() &&
               std::ranges::count(contest.standings[0].runs, row.run, &RunRow::run) > 0;
      };
      const bool doubtful = std::ranges::any_of(rows, is_doubtful);
      for (const Standing& standing : contest.approximate)
        for (RunRow& row : rows)
          if (std::ranges::count(standing.runs, row.run, &RunRow::run) > 0)
            row.apart = approximate_words(contest, standing,
                                          row.doubt.empty() && !doubtful ? "" : " (disturbed)");
    }
  }
  return equal;
}

TextTable slim_table(std::span<const RunRow> rows, const std::set<const Run*>& equals,
                     Footnotes& footnotes) {
  std::vector<const Run*> runs;
  for (const RunRow& row : rows) runs.push_back(row.run);
  const RunNames names(runs);
  TextTable table{.keys = 2, .columns = {{"", "strategy", true}, {"", "devices"}}};
  if (from_several_files(rows)) {
    table.keys = 3;
    table.columns.insert(table.columns.begin(), {"", "report", true});
  }
  const auto is_used = [&rows](const Slim& slim) {
    if (std::string_view(slim.column) == "to-accuracy")
      return std::ranges::any_of(rows,
                                 [](const RunRow& r) { return r.run->until_accuracy.has_value(); });
    return slim.drop != 5 || std::ranges::any_of(rows, has_spread);
  };
  std::vector<Slim> used;
  std::ranges::copy_if(kSlim, std::back_inserter(used), is_used);
  for (const Slim& slim : used)
    table.columns.push_back({"", slim.heading, false, false, slim.drop});
  table.columns.push_back({"", "", true});
  for (const RunRow& row : rows) {
    const Run& run = *row.run;
    const bool equal = equals.contains(&run);
    std::vector<std::string> cells = {
        run.strategy + (names.details(run).empty() ? "" : " (" + names.details(run) + ")"),
        std::to_string(run.world_size) + (run.servers > 0 ? fmt::format("+{}", run.servers) : "")};
    if (table.keys == 3) cells.insert(cells.begin(), row.file);
    for (const Slim& slim : used) {
      const bool same = equal && run.strategy != kBaseline && row.doubt.empty();
      cells.push_back(same && is_scaling(slim) ? "=" : slim_cell(slim, row));
    }
    cells.push_back(marks_of(row, equal, footnotes));
    for (std::string& cell : cells) cell = printable(cell);
    if (is_bare(run)) {
      std::fill(cells.begin() + static_cast<std::ptrdiff_t>(table.keys), cells.end() - 1, "");
    }
    table.add_row(std::move(cells));
    if (is_bare(run))
      table.instead.back() =
          fmt::format("{} {}", to_string(run.status), footnotes.mark(status_note(run)));
  }
  if (std::ranges::count(table.columns.back().cells, "") == std::ssize(rows)) {
    table.columns.pop_back();  // no row has marks
  }
  return table;
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

TextTable compact_table(std::span<const RunRow> unmarked, std::vector<std::string>& notes) {
  const std::vector<RowWarning> warnings = row_warnings(unmarked);
  std::vector<RunRow> rows = in_order(marked_rows(unmarked, warnings));
  const std::set<const Run*> equals = equal_runs(rows);
  Footnotes footnotes;
  TextTable table = slim_table(rows, equals, footnotes);
  const auto equal =
      std::ranges::count_if(rows, [&](const RunRow& row) { return equals.contains(row.run); });
  if (equal > 0) {
    notes.push_back(fmt::format(
        "= the same work on one device: these {} show how far runs differ by chance", equal));
  }
  for (const RowWarning& warning : warnings) {
    const std::string mark = warning.mark.empty() ? "" : fmt::format("[{}] ", warning.mark);
    notes.push_back(mark + warning.text);
  }
  std::ranges::move(footnotes.lines(), std::back_inserter(notes));
  return table;
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
  std::string text;
  for (const std::string& line : lines)
    text += line.size() > limit ? wrap(line, limit, 4) : line + "\n";
  return text;
}

std::string compact_text(std::span<const RunRow> rows, int width) {
  if (rows.empty()) return "no runs\n";
  const auto limit = static_cast<std::size_t>(text_columns(width));
  std::vector<std::string> notes;
  std::string text = render_rows(compact_table(rows, notes), limit) + '\n';
  const std::string agree = agreement(rows);
  const std::string noise =
      text.find("(a..b)") == std::string::npos
          ? noise_words(rows, false)
          : fmt::format("(a..b): smallest and largest; from {} repetitions on a 95 % interval",
                        kFewestForInterval + 1);
  notes.insert(notes.end(), {accuracy_meaning(rows), caption(rows),
                             agree + (agree.empty() || noise.empty() ? "" : " ") + noise});
  std::erase(notes, "");
  return text + notes_text(notes, limit);
}

}  // namespace ddpbench::report
