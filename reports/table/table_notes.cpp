// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "reports/data/report_view.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// One sentence each, without control characters.
std::vector<Warning> warnings(const Report& report) {
  std::vector<Warning> found = condition_warnings(report);
  Warning noisy;
  for (const CellSummary& cell : report.cells) {
    if (!cell.noisy) continue;
    for (const std::size_t index : cell.runs) noisy.runs.push_back(&report.runs.at(index));
  }
  if (!noisy.runs.empty()) {
    noisy.text = fmt::format(
        "{} of {} settings are noisy: their repetitions do not agree as closely as --until-ci asks",
        std::ranges::count_if(report.cells, &CellSummary::noisy), report.cells.size());
    found.push_back(std::move(noisy));
  }
  for (Warning& warning : found) warning.text = printable(std::move(warning.text));
  return found;
}

std::optional<double> number_of(const std::string& column, const RunRow& row) {
  return find_column(column)->fields.front().value(row).number();
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

bool has_row(const Standing& standing, const RunRow& row) {
  return std::ranges::count(standing.runs, row.run, &RunRow::run) > 0;
}

// Sets which rows do the same work on one device, of each report by itself, and what approximate
// rows have apart from its others.
void compare_rows(std::span<RunRow> rows) {
  for (const auto& [report, own] : grouped(rows, [](const RunRow& row) { return row.report; })) {
    const std::vector<Contest> all = contests(single_runs(own));
    const std::set<const Run*> equal = find_yardstick(all).runs;
    for (RunRow& row : rows) row.is_equal |= equal.contains(row.run);
    for (const Contest& contest : all) {
      const bool doubtful = std::ranges::any_of(rows, [&contest](const RunRow& row) {
        return !row.doubt.empty() && !contest.standings.empty() &&
               has_row(contest.standings[0], row);
      });
      for (const Standing& standing : contest.approximate)
        for (RunRow& row : rows)
          if (has_row(standing, row))
            row.apart = approximate_words(contest, standing,
                                          row.doubt.empty() && !doubtful ? "" : " (disturbed)");
    }
  }
}

}  // namespace

std::vector<Warning> row_warnings(std::span<const RunRow> rows) {
  constexpr char kFirst = 'a', kLast = 'z';
  std::vector<Warning> found;
  std::set<const Report*> told;
  char letter = kFirst;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second) continue;
    const std::string file = from_several_files(rows) ? printable(row.file) + ": " : "";
    for (Warning& warning : warnings(*row.report)) {
      const bool some = warning.runs.size() < row.report->runs.size() && letter <= kLast;
      found.push_back({file + warning.text, std::move(warning.runs), ""});
      if (some) found.back().mark = letter++;
    }
  }
  return found;
}

std::vector<RunRow> marked_rows(std::span<const RunRow> rows,
                                const std::vector<Warning>& warnings) {
  std::map<const Run*, std::string> marks;
  for (const Warning& warning : warnings) {
    for (const Run* run : warning.runs) marks[run] += warning.mark;
  }
  std::vector<RunRow> marked(rows.begin(), rows.end());
  std::vector<std::vector<const Run*>> divisors = mark_doubts(marked);
  for (std::size_t i = 0; i < marked.size(); ++i) {
    RunRow& row = marked[i];
    const std::vector<const Run*> runs = runs_of_row(row);
    // What is divided by a disturbed run is as doubtful.
    std::vector<const Run*>& concerned = divisors[i];
    if (!row.run->scaling) concerned.clear();
    concerned.insert(concerned.end(), runs.begin(), runs.end());
    std::set<char> letters;
    for (const Run* run : concerned) {
      if (const auto found = marks.find(run); found != marks.end()) {
        letters.insert(found->second.begin(), found->second.end());
      }
    }
    row.marks.assign(letters.begin(), letters.end());
  }
  const RunNames names(marked);
  for (RunRow& row : marked) row.details = names.details(*row.run);
  compare_rows(marked);
  return marked;
}

std::vector<std::string> row_notes(const RunRow& row) {
  const Run& run = *row.run;
  std::vector<std::string> notes;
  constexpr double kStarved = 0.2;  // the loader works beside the steps: mostly none waits for it
  const double waits = number_of("wait", row).value_or(0) / number_of("step", row).value_or(1);
  if (waits >= kStarved)
    notes.push_back(
        fmt::format("{:.0f} % of a step is waiting for the loader{}", 100 * waits,
                    row.report->generator.is_import() ? "" : ": try more --loader-workers"));
  if (run.status != Status::ok) notes.push_back(status_note(run));
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
  if (run.oversubscribed) notes.push_back(fmt::format("{}: not ranked", crowd_words(run)));
  if (row.repeated != nullptr && !row.repeated->note.empty()) notes.push_back(row.repeated->note);
  if (!row.doubt.empty() && !row.is_warned) notes.push_back(row.doubt);
  return notes;
}

std::string beyond_resuming(const Report& report) {
  if (!report.collectives.empty()) return "`ddpbench comm`";
  if (report.tune) return "`ddpbench tune`";
  if (report.argv.size() > 1 && !report.argv[1].starts_with("-")) {
    return fmt::format("`ddpbench {}`", report.argv[1]);
  }
  return "";
}

std::string interruption_lines(const Report& report, const std::string& path, int width) {
  if (report.status != Status::interrupted) return {};
  std::string how;
  if (std::ranges::any_of(report.runs, [](const Run& run) { return !run.checkpoints.empty(); })) {
    how =
        "; the same command with its --checkpoint as --resume-training and another --json goes on";
  } else if (beyond_resuming(report).empty()) {
    how = fmt::format("; the same command with --resume={} in place of --json makes them", path);
  }
  return wrap(printable(fmt::format("{} was interrupted: it lacks the runs that were not made{}",
                                    path, how)),
              static_cast<std::size_t>(std::max(width, 0)), 4);
}

}  // namespace ddpbench::report
