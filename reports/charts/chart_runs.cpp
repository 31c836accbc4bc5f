// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "reports/charts/chart_names.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kNamedReasons = 12;  // that a note names; of further ones it names the runs
constexpr std::size_t kNamedRuns = 40;     // that a note names of each reason
constexpr std::size_t kFirstFreeStyle = 4;

std::string place(const Run& run) { return fmt::format("{} on {}", run.strategy, run.world_size); }

// Why no chart draws this run; empty when a chart may.
std::string ended_badly(const Run& run) {
  if (!is_complete(run)) {
    const std::string why = run.error ? run.error->message : run.reason;
    return fmt::format("{}{}{}", to_string(run.status), why.empty() ? "" : ": ", why);
  }
  return run.verification.status == "failed" ? "the verification failed" : "";
}

struct Named {
  ChartRun from;
  std::string series;
};

std::vector<ChartSeries> series_of(std::vector<Named>& runs) {
  const auto key = [](const Named& named) {
    return std::make_tuple(strategy_rank(named.from.run->strategy), NaturalName{named.series},
                           named.from.run->world_size);
  };
  std::ranges::stable_sort(runs, {}, key);
  std::vector<ChartSeries> series;
  std::map<std::string, std::size_t> styles, variants;  // by strategy
  std::size_t free = kFirstFreeStyle;
  for (const Named& named : runs) {
    if (!series.empty() && series.back().name == named.series) continue;
    const std::string& strategy = named.from.run->strategy;
    const std::size_t rank = strategy_rank(strategy);
    const bool is_new = !styles.contains(strategy);
    if (is_new) styles[strategy] = rank < kFirstFreeStyle ? rank : free++;
    series.push_back({named.series, styles[strategy], variants[strategy]++});
  }
  return series;
}

std::string group_name(const ChartSeries& series, const Run& run, bool oversubscribed) {
  return fmt::format("{} on {}{}", series.name, run.world_size, oversubscribed ? "*" : "");
}

// REQUIRES: `runs` as series_of() sorted them.
std::vector<RunGroup> groups_of(const std::vector<Named>& runs,
                                const std::vector<ChartSeries>& series) {
  std::vector<RunGroup> groups;
  std::size_t current = 0;
  for (const Named& named : runs) {
    while (series[current].name != named.series) ++current;
    const Run& run = *named.from.run;
    const bool same = !groups.empty() && groups.back().series == current &&
                      groups.back().devices == run.world_size;
    if (!same) groups.push_back({current, run.world_size, {}, false, {}});
    groups.back().runs.push_back(&run);
    groups.back().oversubscribed |= run.oversubscribed;
  }
  for (RunGroup& group : groups) {
    group.name = group_name(series[group.series], *group.runs.front(), group.oversubscribed);
  }
  return groups;
}

// "ddp on 4 (x3), dp on 2 and 5 more".
std::string places_text(const std::vector<std::pair<std::string, int>>& places) {
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), kNamedRuns); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", places[i].first);
    if (places[i].second > 1) text += fmt::format(" (x{})", places[i].second);
  }
  if (places.size() > kNamedRuns) text += fmt::format(" and {} more", places.size() - kNamedRuns);
  return text;
}

// Notes that lines differ in more than their strategy.
void note_unlike(std::span<const ChartRun> drawn, ChartCaption& caption) {
  std::vector<RunRow> rows;
  for (const ChartRun& run : drawn) rows.push_back({run.report, run.run, 0, {}});
  const std::string unlike = unlike_words(rows);
  if (unlike.empty()) return;
  caption.notes.push_back(
      "runs differ in what they compute or run on, and only those that agree "
      "in it compare: " +
      unlike);
}

}  // namespace

std::string_view to_string(ChartKind kind) {
  switch (kind) {
    case ChartKind::scaling:
      return "scaling";
    case ChartKind::breakdown:
      return "breakdown";
    case ChartKind::memory:
      return "memory";
    case ChartKind::steps:
      return "steps";
    case ChartKind::buckets:
      return "buckets";
    case ChartKind::accuracy:
      return "accuracy";
    case ChartKind::busy:
      return "busy";
    case ChartKind::bandwidth:
      break;
  }
  return "bandwidth";
}

std::string_view to_string(CourseAxis axis) {
  return axis == CourseAxis::seconds ? "seconds" : "steps";
}

std::optional<ChartKind> chart_kind(std::string_view word) {
  for (const ChartKind kind : kChartKinds) {
    if (word == to_string(kind)) return kind;
  }
  return std::nullopt;
}

void note_interrupted(std::span<const Report> reports, ChartCaption& caption) {
  const auto count = std::ranges::count(reports, Status::interrupted, &Report::status);
  if (count == 0) return;
  const std::string which = reports.size() == 1 ? "the report was"
                            : count == 1
                                ? fmt::format("1 of {} reports was", reports.size())
                                : fmt::format("{} of {} reports were", count, reports.size());
  caption.notes.push_back(which + " interrupted: runs are missing");
}

void LeftOut::add(const Run& run, const std::string& reason) { add(place(run), reason); }

void LeftOut::add(const std::string& name, const std::string& reason) {
  auto found = std::ranges::find(reasons_, reason, [](const auto& entry) { return entry.first; });
  if (found == reasons_.end()) found = reasons_.insert(found, {reason, {}});
  auto& places = found->second;
  const auto known = std::ranges::find(places, name, [](const auto& entry) { return entry.first; });
  if (known == places.end()) {
    places.emplace_back(name, 1);
  } else {
    ++known->second;
  }
}

std::string LeftOut::note() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(reasons_.size(), kNamedReasons); ++i) {
    const auto& [reason, places] = reasons_[i];
    text += fmt::format("{}{} ({})", i == 0 ? "left out: " : "; ", places_text(places), reason);
  }
  if (reasons_.size() <= kNamedReasons) return text;
  std::map<std::string, int> others;
  for (std::size_t i = kNamedReasons; i < reasons_.size(); ++i) {
    for (const auto& [place, count] : reasons_[i].second) others[place] += count;
  }
  return text + fmt::format("; {} ({} further reasons)",
                            places_text({others.begin(), others.end()}),
                            reasons_.size() - kNamedReasons);
}

ChartRuns chart_runs(std::span<const Report> reports, const std::string& what, Unfit unfit) {
  ChartRuns result;
  std::vector<ChartRun> drawn;
  for (const Report& report : reports) {
    for (const Run& run : report.runs) {
      std::string reason = ended_badly(run);
      if (reason.empty()) reason = unfit(run);
      if (reason.empty()) {
        drawn.push_back({&report, &run});
      } else {
        result.left_out.add(run, reason);
      }
    }
  }
  if (drawn.empty()) {
    result.empty_reason = result.left_out.empty() ? "there are no runs" : result.left_out.note();
    return result;
  }
  result.caption = caption_of(drawn, what);
  note_interrupted(reports, result.caption);
  note_unlike(drawn, result.caption);
  const std::vector<std::string> names = series_names(drawn);
  std::vector<Named> named;
  for (std::size_t i = 0; i < drawn.size(); ++i) named.push_back({drawn[i], names[i]});
  result.series = series_of(named);
  result.groups = groups_of(named, result.series);
  return result;
}

void begin_chart(Chart& chart, const ChartRuns& runs) {
  chart.caption = runs.caption;
  chart.series = runs.series;
  chart.empty_reason = runs.empty_reason;
}

void end_chart(Chart& chart, const ChartRuns& runs) {
  const bool any = std::ranges::any_of(runs.groups, &RunGroup::oversubscribed);
  if (any) {
    chart.caption.notes.emplace_back(
        "*: oversubscribed, more compute threads than cores: says nothing about scaling");
  }
  for (const std::string& note : runs.no_room) chart.caption.notes.push_back(note);
  if (!runs.empty_reason.empty()) return;
  if (!runs.left_out.empty()) chart.caption.notes.push_back(runs.left_out.note());
}

std::string no_room_note(const std::vector<std::string>& dropped, std::size_t all) {
  std::vector<std::pair<std::string, int>> places;
  for (const std::string& name : dropped) places.emplace_back(name, 1);
  return fmt::format(
      "no room for {} of {} in a picture: {}; the options that choose runs make room",
      dropped.size(), all, places_text(places));
}

void limit_groups(ChartRuns& runs, std::size_t most) {
  if (runs.groups.size() <= most) return;
  std::vector<std::string> dropped;
  for (std::size_t i = most; i < runs.groups.size(); ++i) dropped.push_back(runs.groups[i].name);
  runs.no_room.push_back(no_room_note(dropped, runs.groups.size()));
  runs.groups.resize(most);
  runs.series.resize(runs.groups.back().series + 1);
}

std::string repetitions_note(int least, int most) {
  if (most == 1) return "one repetition: no error bars";
  return fmt::format(
      "median of {} repetitions; error bars, or in brackets: their minimum and maximum",
      least == most ? std::to_string(most) : fmt::format("{} to {}", least, most));
}

bool plausible(double value) { return std::isfinite(value) && value >= 0 && value < 1e18; }

Spread spread(const std::vector<double>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return {median(values), least, most, static_cast<int>(values.size())};
}

}  // namespace ddpbench::report
