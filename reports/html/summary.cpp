// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The summary: what failed, the first answer, warnings about figures, and the conclusion of
// `ddpbench tune`.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>
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

void write_alert(Markup& page, const std::string& text) {
  page.leaf("p", {{"class", "alert bad"}}, text);
}

bool disagrees(const RunRow& row) { return row.run->verification.status == "failed"; }

void write_report_errors(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const Report& report = input.reports[i];
    if (report.status == Status::ok) continue;
    const std::string why = report.error ? ": " + report.error->message : "";
    write_alert(page, fmt::format("{}: {}{}", input.names[i], to_string(report.status), why));
  }
}

// "ddp on 2 devices: 1.84 times one device" of the answer's first line, and what stands there in
// brackets.
std::pair<std::string, std::string> headline_of(const std::string& line) {
  constexpr std::string_view kOf = "the samples/s of one device (";
  const std::size_t begin = line.find(kOf), inside = begin + kOf.size();
  const std::size_t end = line.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return {line, ""};
  const std::string behind = line.substr(end + 1, line.size() - end - 2);  // without the full stop
  return {line.substr(0, begin) + "one device" + behind, line.substr(inside, end - inside)};
}

// The sentences of "How sure: ..." in short, whether all agree with one device, and what makes
// figures less certain, which unfolds.
void write_chips(Markup& page, std::string_view sure, const std::string& agree,
                 const std::vector<Warning>& warnings) {
  if (sure.empty() && agree.empty() && warnings.empty()) return;
  page.open("ul", {{"class", "chips"}});
  while (sure.ends_with('.')) {
    const std::size_t end = std::min(sure.find(". "), sure.size() - 1);
    const std::string whole(sure.substr(0, end));
    page.leaf("li", {{"title", whole}},
              whole == "not" ? "not sure" : whole.substr(0, whole.find(';')));
    sure.remove_prefix(std::min(end + 2, sure.size()));
  }
  const bool all = agree.starts_with("All") || agree.starts_with("It");
  if (!agree.empty())
    page.leaf("li", {{all ? "class" : "", "good"}}, agree.substr(0, agree.size() - 1));
  if (!warnings.empty()) {
    const std::size_t others = warnings.size() - 1;
    page.open("li").open("details", {{"class", "warning"}});
    page.leaf("summary", fmt::format("! {}{}", warnings[0].text,
                                     others > 0 ? fmt::format(" and {} more", others) : ""));
    write_list(page, mapped(warnings, &Warning::line), "notes");
    page.close().close();
  }
  page.close();
}

// A bar for each speed-up of several devices, and of `single`, to the number of devices at most.
void write_speedups(Markup& page, std::span<const RunRow> rows) {
  using namespace pictures;
  constexpr double kWidth = 420, kRow = 32, kBars = kWidth - 40;
  constexpr std::ptrdiff_t kMost = 8;
  std::vector<RunRow> runs;
  std::vector<const RunRow*> shown;
  int most = 1;
  for (const RunRow& row : rows) {
    const bool is_wanted = row.run->world_size > 1 || row.run->strategy == kBaseline;
    if (row.run->scaling && row.doubt.empty() && is_wanted) shown.push_back(&row);
  }
  const auto speedup_of = [](const RunRow* row) {
    return find_column("speedup")->fields[0].value(*row).number().value_or(0);
  };
  std::ranges::stable_sort(shown, {}, [&](const RunRow* row) {
    return std::pair(row->run->world_size, speedup_of(row));
  });
  if (std::ssize(shown) > kMost) shown.erase(shown.begin() + 1, shown.end() - kMost + 1);
  for (const RunRow* row : shown) {
    runs.push_back(*row);
    most = std::max(most, row->run->world_size);
  }
  if (most == 1) return;
  const RunNames names(runs);
  page.open("figure").leaf("figcaption", "Speed-up (dotted: ideal)");
  const auto at = [most](double speedup) { return kBars * std::min(1.0, speedup / most); };
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
    const double speedup = speedup_of(shown[i]);
    svg_text(page, {0, top + 12}, Anchor::start, "",
             names.setting(run) + (run.verification.is_approximate() ? ", approximate" : ""));
    svg_rect(page, {0, top + 16}, at(speedup), 12, "bar", "");
    if (const RepeatedRuns* all = shown[i]->repeated; all != nullptr && all->speedup.low.value) {
      svg_line(page, {at(*all->speedup.low.value), top + 22},
               {at(*all->speedup.high.value), top + 22}, "error");
    }
    svg_line(page, {at(run.world_size), top + 14}, {at(run.world_size), top + 30}, "ideal");
    svg_text(page, {kWidth, top + 26}, Anchor::end, "", fmt::format("{:.2f}", speedup));
  }
  page.close().close();
}

// What would help the setting whose cause the answer names: the fastest exact one on several
// devices.
std::string advice_for(const std::vector<RunRow>& runs) {
  const std::vector<Contest> all = contests(runs);
  const Standing* best = nullptr;
  for (const Standing& one : all | std::views::transform(&Contest::standings) | std::views::join) {
    const Run& run = *one.runs[0].run;
    const bool wanted = run.world_size > 1 && !run.oversubscribed;
    if (wanted && (best == nullptr || one.samples_per_s > best->samples_per_s)) best = &one;
  }
  if (best == nullptr) return {};
  const std::vector<Explanation> found = explanations(best->runs);
  return found.empty() ? "" : found[0].verdict.advice;
}

// Where the step of the fastest settings on the most devices goes, and why they are not faster.
void write_step(Markup& page, const HtmlInput& input, const std::vector<RunRow>& runs,
                const std::string& why_not) {
  constexpr std::size_t kMost = 4;
  StackedChart chart = breakdown_chart(input.reports);
  std::erase_if(chart.bars, [](const StackedBar& bar) {
    return bar.devices == 1 || bar.oversubscribed || bar.label == "others";
  });
  std::ranges::stable_sort(
      chart.bars, {}, [](const StackedBar& bar) { return std::pair(-bar.devices, bar.whole); });
  chart.bars.resize(std::min(kMost, chart.bars.size()));
  page.open("div");
  if (!chart.bars.empty()) write_small_figure(page, stacked_picture(chart, pictures::Medium{}));
  if (!why_not.empty()) {
    const std::string advice = advice_for(runs);
    page.leaf("p", why_not + (advice.empty() ? "" : " What helps: " + advice + "."));
  }
  page.close();
}

// The answer, how sure it is, the speed-ups, and where the step goes.
void write_answer(Markup& page, const HtmlInput& input) {
  const std::vector<RunRow> runs = rows_of(input);
  const std::vector<std::string> answer = answer_lines(runs, input.device_bytes);
  const CondensedRows condensed(runs);
  const std::vector<Warning> warnings = row_warnings(runs);
  const std::vector<RunRow> rows = marked_rows(condensed.rows(), warnings);
  constexpr std::string_view kSure = "How sure: ", kWhyNot = "Why not ";
  std::string sure, why_not, figures;
  for (const std::string& line : answer) {
    if (line.starts_with(kSure)) sure = line.substr(kSure.size());
    if (line.starts_with(kWhyNot)) why_not = line;
  }
  if (!answer.empty()) {
    std::string headline = answer[0];
    std::tie(headline, figures) = headline_of(answer[0]);
    page.leaf("p", {{"class", input.gate ? "answer" : "headline"}}, headline);
  }
  write_chips(page, sure, agreement(rows), warnings);
  if (!figures.empty()) {
    const std::size_t rates = figures.find("; ");  // behind the intervals of speed-ups, if any
    page.leaf("p", {{"class", "about"}},
              rates == std::string::npos
                  ? "samples/s: " + figures
                  : fmt::format("speed-up {}; samples/s: {}", figures.substr(0, rates),
                                figures.substr(rates + 2)));
  }
  for (std::size_t i = 1; i < answer.size(); ++i)
    if (!answer[i].starts_with(kSure) && answer[i] != why_not)
      page.leaf("p", {{"class", "lead"}}, answer[i]);
  page.open("div", {{"class", "first"}});
  write_speedups(page, rows);
  write_step(page, input, runs, why_not);
  page.close();
}

// Whether the results of all collectives were right.
void write_collectives_summary(Markup& page, const HtmlInput& input) {
  std::size_t rows = 0, wrong = 0, unchecked = 0;
  for (const CollectiveRow& row :
       input.reports | std::views::transform(&Report::collectives) | std::views::join) {
    ++rows;
    wrong += row.wrong.value_or(0) > 0 ? 1 : 0;
    unchecked += row.wrong ? 0 : 1;
  }
  if (wrong > 0) {
    write_alert(page, fmt::format("{} of {} collectives gave wrong results. See Collectives.",
                                  wrong, rows));
  } else {
    page.leaf("p", {{"class", "lead"}},
              fmt::format("{} measured, without a wrong element{}.", counted(rows, "collective"),
                          unchecked == 0 ? "" : fmt::format("; {} not checked", unchecked)));
  }
}

}  // namespace

std::string subject_of(const HtmlInput& input) {
  std::vector<std::string> subjects;
  for (const RunRow& row : rows_of(input)) {
    const Run& run = *row.run;
    if (run.model.empty() || run.dataset_name.empty()) continue;  // skipped before it was known
    subjects.push_back(run.model + " on " + run.dataset_name);
  }
  subjects = different_words(subjects, {});
  if (subjects.empty()) return has_runs(input) ? "Training strategies" : "Collectives";
  return joined(subjects, ", ");
}

void write_summary(Markup& page, const HtmlInput& input) {
  if (input.gate) write_gate_verdict(page, *input.gate);
  write_report_errors(page, input);
  if (std::ranges::any_of(rows_of(input), disagrees)) {
    write_alert(page,
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
    if (tune && input.reports.size() > 1)
      page.leaf("p", {{"class", "lead"}}, input.names[i] + ": " + tune->conclusion);
  }
}

}  // namespace ddpbench::report::html
