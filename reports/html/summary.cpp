// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "reports/html/sections.h"
#include "reports/pictures/numbers.h"

namespace ddpbench::report::html {
namespace {

using pictures::fixed;
using pictures::number;

constexpr std::size_t kNamed = 3;  // networks and data sets that a heading names

void write_alert(Markup& page, const std::string& kind, const std::string& text) {
  page.leaf("p", {{"class", "alert " + kind}}, text);
}

void write_report_errors(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const Report& report = input.reports[i];
    if (report.status == Status::ok) continue;
    const std::string why = report.error ? ": " + report.error->message : "";
    write_alert(page, "bad",
                fmt::format("{} is {}{}", input.names[i], to_string(report.status), why));
  }
}

struct Counts {
  std::size_t runs = 0, ok = 0, verified = 0, disagree = 0, oversubscribed = 0, injected = 0;
};

Counts count(const HtmlInput& input) {
  Counts counts;
  for (const Report& report : input.reports) {
    for (const Run& run : report.runs) {
      ++counts.runs;
      counts.ok += run.status == Status::ok ? 1 : 0;
      counts.verified += run.verification.status == "passed" ? 1 : 0;
      counts.disagree += run.verification.status == "failed" ? 1 : 0;
      counts.oversubscribed += run.oversubscribed ? 1 : 0;
      counts.injected += run.injected.empty() ? 0 : 1;
    }
  }
  return counts;
}

void write_counts(Markup& page, const Counts& counts) {
  page.open("dl", {{"class", "counts"}});
  const auto item = [&](std::size_t value, const std::string& words) {
    page.open("div").leaf("dt", words).leaf("dd", std::to_string(value)).close();
  };
  item(counts.runs, counts.runs == 1 ? "run" : "runs");
  if (counts.ok != counts.runs) item(counts.runs - counts.ok, "did not end well");
  item(counts.verified, "verified against one device");
  if (counts.disagree > 0) item(counts.disagree, "disagree with it");
  if (counts.oversubscribed > 0) item(counts.oversubscribed, "oversubscribed");
  if (counts.injected > 0) item(counts.injected, "with a planted fault");
  page.close();
}

using Points = std::vector<const ScalingPoint*>;

// Whether the ranges of the repetitions overlap: then the order of the medians may be chance.
bool overlap(const ScalingPoint& a, const ScalingPoint& b) {
  return a.samples_per_s.min <= b.samples_per_s.max && b.samples_per_s.min <= a.samples_per_s.max;
}

// The names of the points that points[0] does not clearly beat.
std::string rivals(const ScalingChart& chart, const Points& points) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (overlap(*points[0], *points[i])) names.push_back(chart.series[points[i]->series].name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string remark_on(const ScalingChart& chart, const Points& points) {
  if (points.size() == 1) return "nothing to compare with";
  const std::string equal = rivals(chart, points);
  if (!equal.empty()) return "not clearly faster than " + equal + ": their repetitions overlap";
  const ScalingPoint& second = *points[1];
  const double ahead = points[0]->samples_per_s.median / second.samples_per_s.median - 1;
  std::string text =
      fmt::format("{:.0f} % ahead of {}", 100 * ahead, chart.series[second.series].name);
  if (points[0]->samples_per_s.count == 1) text += "; one repetition, so noise is not known";
  return text;
}

std::vector<Cell> best_row(const ScalingChart& chart, int devices, const Points& points) {
  const ScalingPoint& best = *points[0];
  const double rate = best.samples_per_s.median;
  return {cell(devices, std::to_string(devices) + (best.oversubscribed ? "*" : "")),
          cell(chart.series[best.series].name), cell(rate, number(rate)),
          best.efficiency ? cell(best.efficiency->median, fixed(100 * best.efficiency->median, 1))
                          : missing_cell(),
          cell(remark_on(chart, points))};
}

// Oversubscribed points compete only where all points are oversubscribed.
void drop_oversubscribed(Points& points) {
  const bool all = std::ranges::all_of(points, &ScalingPoint::oversubscribed);
  if (!all) std::erase_if(points, [](const ScalingPoint* point) { return point->oversubscribed; });
}

void write_best(Markup& page, const ScalingChart& chart) {
  std::map<int, Points> by_devices;
  for (const ScalingPoint& point : chart.points) by_devices[point.devices].push_back(&point);
  for (auto& [devices, points] : by_devices) drop_oversubscribed(points);
  Table table{"The fastest strategy on each number of devices",
              {{"devices"}, {"fastest", true}, {"samples/s"}, {"efficiency, %"}, {"remark", true}},
              {},
              {}};
  bool starred = false;
  for (auto& [devices, points] : by_devices) {
    std::ranges::stable_sort(points, std::greater(),
                             [](const ScalingPoint* point) { return point->samples_per_s.median; });
    starred = starred || points[0]->oversubscribed;
    table.rows.push_back(best_row(chart, devices, points));
  }
  if (starred) {
    table.notes.emplace_back(
        "* oversubscribed, more compute threads than cores: says nothing about scaling");
  }
  write_table(page, table);
}

}  // namespace

std::string subject_of(const HtmlInput& input) {
  std::vector<std::string> subjects;
  for (const Report& report : input.reports) {
    for (const Run& run : report.runs) {
      if (run.model.empty() || run.dataset_name.empty())
        continue;  // skipped before these were known
      std::string subject = run.model + " on " + run.dataset_name;
      if (std::ranges::find(subjects, subject) == subjects.end()) {
        subjects.push_back(std::move(subject));
      }
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
  write_report_errors(page, input);
  write_warnings(page, input);
  const Counts counts = count(input);
  if (counts.disagree > 0) {
    write_alert(page, "bad",
                "Strategies disagree with one device: their figures compare different "
                "computations. See Verification.");
  }
  if (scaling.empty_reason.empty()) {
    const std::string& title = scaling.caption.title;
    page.leaf("p", {{"class", "lead"}},
              title.substr(title.find(": ") + 2) + ". " + scaling.caption.subtitle + ".");
  }
  if (has_runs(input)) write_counts(page, counts);
  write_tuning(page, input);
  if (scaling.empty_reason.empty()) {
    write_best(page, scaling);
  } else if (has_runs(input)) {
    page.leaf("p", "No strategy can be named: " + scaling.empty_reason + ".");
  }
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
