// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The summary: what failed, which setting is fastest, warnings about figures, and the conclusion of
// `ddpbench tune`.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"
#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"
#include "reports/pictures/svg.h"
#include "reports/table/table.h"

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

// Numbers of runs, with words for each.
void write_counts(Markup& page, const std::vector<const Run*>& runs) {
  const auto count = [&](auto matches) { return std::ranges::count_if(runs, matches); };
  page.open("dl", {{"class", "counts"}});
  const auto item = [&](std::ptrdiff_t value, const std::string& words, bool always = false) {
    if (value == 0 && !always) return;
    page.open("div").leaf("dt", words).leaf("dd", std::to_string(value)).close();
  };
  item(std::ssize(runs), plural(runs.size(), "run"), true);
  item(count([](const Run* run) { return run->status != Status::ok; }), "did not end well");
  item(count([](const Run* run) { return run->verification.status == "passed"; }),
       "verified against one device", true);
  item(count(disagrees), "disagree with it");
  item(count([](const Run* run) { return run->oversubscribed; }), "oversubscribed");
  item(count([](const Run* run) { return !run->injected.empty(); }), "with a planted fault");
  page.close();
}

int devices_of(const Contest& contest) { return contest.standings[0].runs[0].run->world_size; }

std::optional<double> efficiency_of(const Standing& standing) {
  std::vector<double> values;
  for (const RunRow& row : standing.runs) {
    if (row.run->scaling && !row.run->oversubscribed) {
      values.push_back(row.run->scaling->efficiency);
    }
  }
  return values.empty() ? std::nullopt : std::optional(median_rate(std::move(values)));
}

// `beside`: all contests on as many devices.
std::vector<Cell> best_row(const Contest& contest, std::span<const Contest> beside) {
  const Standing& best = contest.standings[0];
  const Run& run = *best.runs[0].run;
  const std::string words = distinguishing_words(contest, beside);
  const bool alone = contest.lead == Lead::alone && beside.size() > 1;
  return {cell(run.world_size, std::to_string(run.world_size) + (run.oversubscribed ? "*" : "")),
          word_cell(words),
          cell(best.name),
          number_cell(best.samples_per_s),
          fixed_cell(efficiency_of(best), 0.01, 1),
          cell(alone ? "stands alone: no other setting has " + words : remark(contest))};
}

// What to take, over all numbers of devices: where all have one global batch, they compete.
void write_recommendations(Markup& page, std::span<const RunRow> rows) {
  constexpr std::size_t kMost = 6;
  std::size_t shown = 0;
  const std::vector<Contest> all = contests(rows, Scope::all_devices);
  for (const Contest& contest : all) {
    if (contest.lead == Lead::alone || ++shown > kMost) continue;
    page.leaf("p", {{"class", "lead"}},
              fmt::format("For {}: {}.", work_words(contest, all), recommendation(contest)));
  }
  if (shown > kMost) {
    page.leaf("p", fmt::format("{} more are in the table below.", shown - kMost));
  }
}

void write_best(Markup& page, const HtmlInput& input) {
  const std::vector<RunRow> rows = rows_of(input);
  const std::vector<Contest> all = contests(rows, Scope::each_number_of_devices);
  if (all.empty()) {
    page.leaf("p", "No strategy can be named: all runs have planted faults.");
    return;
  }
  const std::string unlike = unlike_words(rows);
  const bool tuned = std::ranges::any_of(
      input.reports, [](const Report& report) { return report.tune.has_value(); });
  if (!tuned) write_recommendations(page, rows);
  Table table{"The fastest strategy on each number of devices",
              {{"devices"},
               {"of runs with", true},
               {"fastest", true},
               {"samples/s"},
               {"efficiency, %"},
               {"remark", true}}};
  bool starred = false;
  for (const Contest& contest : all) {  // in the order of devices
    const std::span<const Contest> beside =
        std::ranges::equal_range(all, devices_of(contest), {}, devices_of);
    starred = starred || contest.standings[0].runs[0].run->oversubscribed;
    table.rows.push_back(best_row(contest, beside));
  }
  if (unlike.empty()) {
    table.columns.erase(table.columns.begin() + 1);
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + 1);
  }
  if (!unlike.empty()) {
    table.notes.push_back("Runs differ in what they compute or run on (" + unlike +
                          "): only those that agree in it compete.");
  }
  if (starred) {
    table.notes.emplace_back(
        "* oversubscribed, more compute threads than cores: says nothing about scaling");
  }
  write_table(page, table);
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
    const BandwidthPoint* best = nullptr;
    for (const BandwidthPoint& point : chart.points) {
      const bool better = best == nullptr || point.gb_per_s.median > best->gb_per_s.median;
      if (point.panel == i && better) best = &point;
    }
    if (best == nullptr) continue;  // of lines without room
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
  if (tune.candidate != setting) return missing_cell();
  if (!tune.gain_ratio.value) return missing_cell(tune.gain_ratio.reason);
  const auto percent = [](const Figure& ratio) {
    return ratio.value ? pictures::fixed(100 * *ratio.value, 1) : "?";
  };
  return cell(*tune.gain_ratio.value,
              fmt::format("{} ({} to {})", percent(tune.gain_ratio), percent(tune.gain_low_ratio),
                          percent(tune.gain_high_ratio)));
}

std::vector<Cell> setting_row(const Tune& tune, std::size_t index) {
  const TuneSetting& setting = tune.settings[index];
  const std::string role = index == 0                ? "the default"
                           : tune.candidate == index ? "best of the screening"
                                                     : "";
  const auto mebibytes = [](double value) { return cell(value, fmt::format("{}", value)); };
  return {mebibytes(setting.first_bucket_mb),
          mebibytes(setting.bucket_cap_mb),
          cell(setting.overlap ? "on" : "off"),
          count_cell(setting.buckets),
          fixed_cell(setting.screening_ratio.value, 1, 3),
          gain_cell(tune, index),
          role.empty() ? missing_cell("") : cell(role)};
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

void write_summary(Markup& page, const HtmlInput& input, const ScalingChart& scaling) {
  open_section(page, "summary", "Summary");
  if (input.gate) write_gate_verdict(page, *input.gate);
  write_report_errors(page, input);
  for (const std::string& text : warning_texts(rows_of(input))) {
    write_alert(page, "warning", sentence(text));
  }
  std::vector<const Run*> runs;
  for (const RunRow& row : rows_of(input)) runs.push_back(row.run);
  if (std::ranges::any_of(runs, disagrees)) {
    write_alert(page, "bad",
                "Strategies disagree with one device: their figures compare different "
                "computations. See Verification.");
  }
  if (scaling.empty_reason.empty()) {
    const std::string& title = scaling.caption.title;
    page.leaf("p", {{"class", "lead"}},
              title.substr(title.find(": ") + 2) + ". " + scaling.caption.subtitle + ".");
  }
  if (has_collectives(input)) write_collectives_summary(page, input);
  if (has_runs(input)) write_counts(page, runs);
  for (const Report& report : input.reports) {
    if (report.collectives.empty()) continue;
    page.leaf("p", {{"class", "lead"}}, sentence(collective_tables(report).caption));
  }
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const std::optional<Tune>& tune = input.reports[i].tune;
    if (!tune) continue;
    const std::string name = input.reports.size() > 1 ? input.names[i] + ": " : "";
    page.leaf("p", {{"class", "lead"}}, name + tune->conclusion);
    write_table(page, tune_table(*tune));
  }
  if (scaling.empty_reason.empty()) {
    write_best(page, input);
  } else if (has_runs(input)) {
    page.leaf("p", "No strategy can be named: " + scaling.empty_reason + ".");
  }
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
