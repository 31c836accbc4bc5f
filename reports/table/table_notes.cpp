// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "reports/charts/chart_names.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// With `digits` significant digits, but with all digits before the point.
std::string significant_ms(double seconds, int digits = 3) {
  const double ms = 1e3 * seconds;
  const int before = ms > 0 ? static_cast<int>(std::floor(std::log10(ms))) + 1 : 1;
  return fmt::format("{:.{}f}", ms, std::max(0, digits - before));
}

// Close values get more digits until they differ.
std::string interval_text(double low_s, double high_s) {
  constexpr int kMostDigits = 9;
  int digits = 3;
  while (digits < kMostDigits && low_s < high_s &&
         significant_ms(low_s, digits) == significant_ms(high_s, digits)) {
    ++digits;
  }
  return fmt::format("{} to {} ms", significant_ms(low_s, digits), significant_ms(high_s, digits));
}

// "8 repetitions", "7 of 8 repetitions" where some were not timed.
std::string count_text(const Report& report, const CellSummary& cell) {
  const auto timed = static_cast<std::size_t>(std::ranges::count_if(cell.runs, [&](std::size_t i) {
    return is_complete(report.runs.at(i)) && report.runs.at(i).step.time_s.has_value();
  }));
  const std::size_t all = cell.runs.size();
  const std::string part = timed < all ? fmt::format("{} of ", timed) : "";
  return part + counted(all, "repetition");
}

std::string line(const Report& report, const std::string& name, const CellSummary& cell) {
  std::string text = name + ": ";
  text += cell.step_median_s.value ? significant_ms(*cell.step_median_s.value) + " ms"
                                   : cell.step_median_s.reason;
  if (cell.ci_low_s.value && cell.ci_high_s.value && cell.ci_width_ratio.value) {
    text += fmt::format(", 95 % interval {} ({:.1f} %)",
                        interval_text(*cell.ci_low_s.value, *cell.ci_high_s.value),
                        100 * *cell.ci_width_ratio.value);
  }
  return fmt::format("{}, {}{}", text, count_text(report, cell), cell.noisy ? ", noisy" : "");
}

// "ddp on 2 devices / ps on 2 devices": at most five, then "N more".
std::string noisy_names(const Report& report) {
  constexpr std::size_t kNamed = 5;
  const std::vector<std::string> names = cell_names(report);
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!report.cells[i].noisy || ++count > kNamed) continue;
    text += (text.empty() ? "" : " / ") + names[i];
  }
  return count > kNamed ? fmt::format("{} / {} more", text, count - kNamed) : text;
}

constexpr std::size_t kMostContests = 12;  // that are told; further ones are counted
constexpr std::size_t kMostLone = 6;       // that are named; further ones are counted

// "single on 1 device (global batch 64); ddp on 2 devices (global batch 256)".
std::string lone_settings(std::span<const Contest> all) {
  std::vector<std::string> names;
  for (const Contest& contest : all) {
    if (contest.lead != Lead::alone) continue;
    names.push_back(
        fmt::format("{} ({})", contest.standings[0].name, distinguishing_words(contest, all)));
  }
  const std::size_t count = names.size();
  if (count > kMostLone) {
    names.resize(kMostLone);
    names.push_back(fmt::format("{} more", count - kMostLone));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

bool on_one_machine(std::span<const RunRow> rows) {
  return std::ranges::all_of(rows, [&rows](const RunRow& row) {
    return row.report->environment.hosts == rows.front().report->environment.hosts;
  });
}

}  // namespace

std::vector<std::string> cell_names(const Report& report) {
  std::vector<ChartRun> firsts;
  for (const CellSummary& cell : report.cells) {
    firsts.push_back({&report, &report.runs.at(cell.runs.at(0))});
  }
  std::vector<std::string> names = series_names(firsts);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Run& run = *firsts[i].run;
    names[i].insert(run.strategy.size(), " on " + counted(run.world_size, "device"));
    names[i] = printable(names[i]);
  }
  return names;
}

std::string cell_lines(const Report& report, std::size_t width) {
  if (report.cells.empty()) return {};
  const std::vector<std::string> names = cell_names(report);
  std::string text = "\nmedian step time over repetitions:\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += wrap(printable(line(report, names[i], report.cells[i])), width, 4);
  }
  const bool too_few = std::ranges::any_of(
      report.cells, [](const CellSummary& cell) { return !cell.ci_width_ratio.value; });
  if (too_few) {
    text += wrap(
        fmt::format("a 95 % interval of the median needs {} timed repetitions", kFewestForInterval),
        width, 4);
  }
  return text;
}

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

std::vector<RowWarning> row_warnings(std::span<const RunRow> rows) {
  constexpr char kFirst = 'a', kLast = 'z';
  std::vector<RowWarning> found;
  std::set<const Report*> told;
  char letter = kFirst;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second) continue;
    for (Warning& warning : warnings(*row.report)) {
      const bool some = warning.runs.size() < row.report->runs.size() && letter <= kLast;
      found.push_back({row.report, row.file, std::move(warning), ""});
      if (some) found.back().mark = letter++;
    }
  }
  return found;
}

std::vector<RunRow> marked_rows(std::span<const RunRow> rows) {
  std::map<const Run*, std::string> marks;
  for (const RowWarning& warning : row_warnings(rows)) {
    for (const Run* run : warning.warning.runs) marks[run] += warning.mark;
  }
  std::vector<RunRow> marked(rows.begin(), rows.end());
  for (RunRow& row : marked) {
    std::set<char> letters;
    for (const Run* run : runs_of_row(row)) {
      if (const auto found = marks.find(run); found != marks.end()) {
        letters.insert(found->second.begin(), found->second.end());
      }
    }
    row.marks.assign(letters.begin(), letters.end());
  }
  return marked;
}

std::string to_string(const RowWarning& warning, bool several_files) {
  return fmt::format("warning{}: {}{}", warning.mark.empty() ? "" : " [" + warning.mark + "]",
                     several_files ? printable(warning.file) + ": " : "", warning.warning.text);
}

std::string warning_lines(std::span<const RunRow> rows, std::size_t width) {
  if (rows.empty()) return {};
  const bool several = from_several_files(rows);
  std::string text;
  for (const RowWarning& warning : row_warnings(rows)) {
    text += wrap(to_string(warning, several), width, 4);
  }
  std::set<const Report*> told;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second || !row.report->tune) continue;
    const std::string where = several ? printable(row.file) + ": " : "";
    text += wrap(where + printable(row.report->tune->conclusion), width, 2);
  }
  return text;
}

std::string ranking_lines(std::span<const RunRow> rows, int width) {
  if (std::ranges::any_of(rows, [](const RunRow& row) { return row.report->tune.has_value(); })) {
    return {};
  }
  const std::vector<Contest> all = contests(rows, Scope::all_devices);
  if (all.empty() || (all.size() == 1 && all[0].lead == Lead::alone)) return {};
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  std::string text;
  const auto add = [&](const std::string& line) { text += wrap(printable(line), columns, 4); };
  const std::string unlike = unlike_words(rows);
  if (!unlike.empty()) {
    add(
        fmt::format("Rows differ in what they compute or run on ({}): only those that agree in it "
                    "compare.",
                    unlike));
  }
  const char* where = on_one_machine(rows) ? "On this machine, for" : "For";
  std::size_t told = 0, further = 0;
  for (const Contest& contest : all) {
    if (contest.lead == Lead::alone) continue;
    if (told == kMostContests) {
      ++further;
      continue;
    }
    ++told;
    add(fmt::format("{} {}: {}.", where, work_words(contest, all), recommendation(contest)));
  }
  if (further > 0) add(fmt::format("{} more of these are in the report's JSON and page.", further));
  const std::string lone = lone_settings(all);
  if (!lone.empty()) add(fmt::format("No other setting does the same work: {}.", lone));
  return text;
}

std::string beyond_resuming(const Report& report) {
  if (!report.collectives.empty()) return "`ddpbench comm`";
  if (report.tune) return "`ddpbench tune`";
  if (report.argv.size() > 1 && !report.argv[1].starts_with("-")) {
    return fmt::format("`ddpbench {}`", report.argv[1]);
  }
  return report.environment.launcher.empty() ? "" : "ranks that a launcher started";
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
