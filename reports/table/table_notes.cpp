// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "reports/data/report_view.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// "ddp on 2 devices / ps on 2 devices": the first of them, then "N more".
std::string noisy_names(const Report& report) {
  const RunNames names(report);
  std::vector<std::string> noisy;
  for (const CellSummary& cell : report.cells) {
    if (cell.noisy) noisy.push_back(names.setting(report.runs.at(cell.runs.at(0))));
  }
  constexpr std::size_t kMost = 5;
  if (const std::size_t count = noisy.size(); count > kMost) {
    noisy.resize(kMost);
    noisy.push_back(fmt::format("{} more", count - kMost));
  }
  return fmt::format("{}", fmt::join(noisy, " / "));
}

// One sentence each, without control characters and without the word "warning:".
std::vector<Warning> warnings(const Report& report) {
  std::vector<Warning> found = condition_warnings(report);
  for (Warning& warning : gpu_warnings(report)) found.push_back(std::move(warning));
  Warning noisy, restless;
  for (const CellSummary& cell : report.cells) {
    if (!cell.noisy) continue;
    for (const std::size_t index : cell.runs) noisy.runs.push_back(&report.runs.at(index));
  }
  if (!noisy.runs.empty()) {
    noisy.text = fmt::format(
        "{} of {} settings are noisy: their repetitions do not agree as closely as --until-ci asks "
        "for ({})",
        std::ranges::count_if(report.cells, &CellSummary::noisy), report.cells.size(),
        noisy_names(report));
    found.push_back(std::move(noisy));
  }
  for (const Run& run : report.runs) {
    if (run.step.warmup_steady == std::optional(false)) restless.runs.push_back(&run);
  }
  if (!restless.runs.empty()) {
    restless.text = fmt::format(
        "in {} of {} runs step times were not steady when the warm-up ended at its limit",
        restless.runs.size(), report.runs.size());
    found.push_back(std::move(restless));
  }
  for (Warning& warning : found) warning.text = printable(std::move(warning.text));
  return found;
}

}  // namespace

std::vector<RowWarning> row_warnings(std::span<const RunRow> rows) {
  constexpr char kFirst = 'a', kLast = 'z';
  std::vector<RowWarning> found;
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
                                const std::vector<RowWarning>& warnings) {
  std::map<const Run*, std::string> marks;
  for (const RowWarning& warning : warnings) {
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
  return marked;
}

std::string RowWarning::line() const {
  return fmt::format("warning{}: {}", mark.empty() ? "" : " [" + mark + "]", text);
}

std::vector<std::string> remarks(std::span<const RunRow> rows) {
  std::vector<std::string> lines;
  for (const RowWarning& warning : row_warnings(rows)) lines.push_back(warning.line());
  std::set<const Report*> told;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second || !row.report->tune) continue;
    lines.push_back((from_several_files(rows) ? printable(row.file) + ": " : "") +
                    printable(row.report->tune->conclusion));
  }
  return lines;
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
  const std::string how =
      beyond_resuming(report).empty()
          ? fmt::format("; the same command with --resume={} in place of --json makes them", path)
          : "";
  return wrap(printable(fmt::format("{} was interrupted: it lacks the runs that were not made{}",
                                    path, how)),
              static_cast<std::size_t>(std::max(width, 0)), 4);
}

}  // namespace ddpbench::report
