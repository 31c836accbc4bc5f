// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The summary: what failed, the first answer, warnings about figures, and the conclusion of
// `ddpbench tune`.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

#include "base/text.h"
#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"
#include "reports/pictures/svg.h"
#include "reports/table/columns.h"
#include "reports/table/table.h"
#include "reports/why/why.h"

namespace ddpbench::report::html {
namespace {

constexpr std::size_t kNamed = 3;  // networks and data sets that a heading names

void write_alert(Markup& page, const std::string& kind, const std::string& text) {
  page.leaf("p", {{"class", "alert " + kind}}, text);
}

bool disagrees(const Run* run) { return run->verification.status == "failed"; }

void write_report_errors(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const Report& report = input.reports[i];
    if (report.status == Status::ok) continue;
    const std::string why = report.error ? ": " + report.error->message : "";
    write_alert(page, "bad",
                fmt::format("{}: {}{}", input.names[i], to_string(report.status), why));
  }
}

// What makes figures less certain, in one line that unfolds.
void write_warnings(Markup& page, const std::vector<RowWarning>& warnings) {
  if (warnings.empty()) return;
  std::vector<std::string> lines;
  for (const RowWarning& warning : warnings) lines.push_back(warning.line());
  page.open("details", {{"class", "alert warning"}});
  page.leaf("summary", fmt::format("Figures are less certain than they look: {}",
                                   counted(warnings.size(), "warning")));
  write_list(page, lines, "notes");
  page.close();
}

// A bar for each speed-up of several devices, to the number of devices at most.
void write_speedups(Markup& page, std::span<const RunRow> rows) {
  using namespace pictures;
  constexpr double kWidth = 600, kRow = 26, kNames = 230, kBars = kWidth - kNames - 60;
  constexpr std::size_t kMost = 16;
  std::vector<const Run*> runs;
  std::vector<const RunRow*> shown;
  int most = 1;
  for (const RunRow& row : rows) {
    if (!row.run->scaling || !row.doubt.empty() || shown.size() == kMost) continue;
    shown.push_back(&row);
    runs.push_back(row.run);
    most = std::max(most, row.run->world_size);
  }
  if (most == 1) return;
  const RunNames names(runs);
  const auto at = [most](double speedup) { return kNames + kBars * std::min(1.0, speedup / most); };
  const double height = kRow * static_cast<double>(shown.size());
  page.open("svg", {{"class", "bars"},
                    {"role", "img"},
                    {"aria-labelledby", "bars-title bars-desc"},
                    {"viewBox", fmt::format("0 0 {} {}", kWidth, height)}});
  page.leaf("title", {{"id", "bars-title"}}, "Speed-up");
  page.leaf(
      "desc", {{"id", "bars-desc"}},
      "A bar for each setting: its samples/s against those of one device; dotted: the ideal.");
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Run& run = *shown[i]->run;
    const double top = kRow * static_cast<double>(i);
    const double speedup = find_column("speedup")->fields[0].value(*shown[i]).number().value_or(0);
    svg_text(page, {0, top + 17}, Anchor::start, "",
             names.setting(run) + (run.verification.is_approximate() ? ", approximate" : ""));
    svg_rect(page, {at(0), top + 5}, at(speedup) - at(0), 16, "bar", "");
    if (const RepeatedRuns* all = shown[i]->repeated; all != nullptr && all->speedup.low.value) {
      svg_line(page, {at(*all->speedup.low.value), top + 13},
               {at(*all->speedup.high.value), top + 13}, "error");
    }
    svg_line(page, {at(run.world_size), top + 2}, {at(run.world_size), top + 24}, "ideal");
    svg_text(page, {kWidth, top + 17}, Anchor::end, "", fmt::format("{:.2f}", speedup));
  }
  page.close();
}

// The answer, how sure it is, and the speed-ups.
void write_answer(Markup& page, const HtmlInput& input) {
  const std::vector<RunRow> runs = rows_of(input);
  const std::vector<std::string> answer = answer_lines(runs, input.device_bytes);
  const CondensedRows condensed(runs);
  const std::vector<RowWarning> warnings = row_warnings(runs);
  const std::vector<RunRow> rows = marked_rows(condensed.rows(), warnings);
  for (std::size_t i = 0; i < answer.size(); ++i)
    page.leaf("p", {{"class", i == 0 ? "headline" : "lead"}}, answer[i]);
  if (const std::string unlike = unlike_words(runs); !unlike.empty()) {
    page.leaf("p", "Runs differ in what they compute or run on (" + unlike +
                       "): only those that agree in it compare.");
  }
  if (const std::string agree = agreement(rows); !agree.empty())
    page.leaf("p", {{"class", "good"}}, agree);
  write_warnings(page, warnings);
  write_speedups(page, rows);
}

// The largest bandwidth of each collective, and whether all results were right.
void write_collectives_summary(Markup& page, const HtmlInput& input) {
  std::size_t rows = 0, wrong = 0, unchecked = 0;
  for (const Report& report : input.reports) {
    for (const CollectiveRow& row : report.collectives) {
      ++rows;
      wrong += row.wrong.value_or(0) > 0 ? 1 : 0;
      unchecked += row.wrong ? 0 : 1;
    }
  }
  if (wrong > 0) {
    write_alert(
        page, "bad",
        fmt::format("{} of {} collectives gave wrong results. See Collectives.", wrong, rows));
  } else {
    page.leaf("p", {{"class", "lead"}},
              fmt::format("{} measured, without a wrong element{}.", counted(rows, "collective"),
                          unchecked == 0 ? "" : fmt::format("; {} not checked", unchecked)));
  }
  const BandwidthChart chart = bandwidth_chart(input.reports);
  if (!chart.empty_reason.empty()) return;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < chart.operations.size(); ++i) {
    auto points = chart.points | std::views::filter([i](const auto& p) { return p.panel == i; });
    const auto best = std::ranges::max_element(
        points, {}, [](const BandwidthPoint& point) { return point.gb_per_s.median; });
    if (best == points.end()) continue;  // of lines without room
    const double rate = best->gb_per_s.median;
    notes.push_back(fmt::format("{}: up to {:.3g} GB/s on the bus ({} of {})", chart.operations[i],
                                rate, chart.series[best->series].name, size_text(best->bytes)));
    if (best->bound_gb_per_s) {
      notes.back() += fmt::format(", {:.0f} % of the bound", 100 * rate / *best->bound_gb_per_s);
    }
  }
  write_list(page, notes, "notes");
}

// "10.2 (8.1 to 12.0)" for the candidate, which was measured again; else missing.
Cell gain_cell(const Tune& tune, std::size_t setting) {
  if (tune.candidate != setting) return {""};
  if (!tune.gain_ratio.value) return {tune.gain_ratio.reason};
  const auto percent = [](const Figure& ratio) {
    return ratio.value ? pictures::fixed(100 * *ratio.value, 1) : "?";
  };
  return Cell(*tune.gain_ratio.value,
              fmt::format("{} ({} to {})", percent(tune.gain_ratio), percent(tune.gain_low_ratio),
                          percent(tune.gain_high_ratio)));
}

std::vector<Cell> setting_row(const Tune& tune, std::size_t index) {
  const TuneSetting& setting = tune.settings[index];
  const std::string role = index == 0                ? "the default"
                           : tune.candidate == index ? "best of the screening"
                                                     : "";
  const auto mebibytes = [](double value) { return Cell(value, fmt::format("{}", value)); };
  return {mebibytes(setting.first_bucket_mb),
          mebibytes(setting.bucket_cap_mb),
          std::string(setting.overlap ? "on" : "off"),
          count_cell(setting.buckets),
          fixed_cell(setting.screening_ratio.value, 1, 3),
          gain_cell(tune, index),
          role};
}

Table tune_table(const Tune& tune) {
  Table table{"Settings that tune tried",
              {{"first bucket, MiB"},
               {"bucket cap, MiB"},
               {"overlap", true},
               {"buckets"},
               {"screening", false, "median over rounds of its step time / the default's"},
               {"gain, % (95 % interval)", false, "of step time, in fresh runs of both"},
               {"remark", true}}};
  for (std::size_t i = 0; i < tune.settings.size(); ++i) {
    table.rows.push_back(setting_row(tune, i));
  }
  return table;
}

}  // namespace

std::string subject_of(const HtmlInput& input) {
  std::vector<std::string> subjects;
  for (const RunRow& row : rows_of(input)) {
    const Run& run = *row.run;
    if (run.model.empty() || run.dataset_name.empty()) continue;  // skipped before it was known
    std::string subject = run.model + " on " + run.dataset_name;
    if (std::ranges::find(subjects, subject) == subjects.end()) {
      subjects.push_back(std::move(subject));
    }
  }
  if (subjects.empty()) return has_runs(input) ? "Training strategies" : "Collectives";
  const std::size_t named = std::min(subjects.size(), kNamed);
  const auto end = subjects.begin() + static_cast<std::ptrdiff_t>(named);
  return fmt::format("{}{}", fmt::join(subjects.begin(), end, ", "),
                     subjects.size() > named ? " and others" : "");
}

void write_summary(Markup& page, const HtmlInput& input) {
  if (input.gate) write_gate_verdict(page, *input.gate);
  write_report_errors(page, input);
  std::vector<const Run*> runs;
  for (const RunRow& row : rows_of(input)) runs.push_back(row.run);
  if (std::ranges::any_of(runs, disagrees)) {
    write_alert(page, "bad",
                "Strategies disagree with one device: their figures compare different "
                "computations. See Verification.");
  }
  if (has_runs(input)) write_answer(page, input);
  if (has_collectives(input)) write_collectives_summary(page, input);
  for (const Report& report : input.reports) {
    if (report.collectives.empty()) continue;
    page.leaf("p", {{"class", "lead"}}, sentence(collective_tables(report).caption));
  }
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const std::optional<Tune>& tune = input.reports[i].tune;
    if (!tune) continue;
    if (input.reports.size() > 1)
      page.leaf("p", {{"class", "lead"}}, input.names[i] + ": " + tune->conclusion);
    write_table(page, tune_table(*tune));
  }
}

}  // namespace ddpbench::report::html
