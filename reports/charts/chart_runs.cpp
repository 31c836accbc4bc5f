// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kFirstFreeStyle = 4;

// The words that may tell the line of a run from others, in the order of a name. `config`: of the
// report. `machines`: those of the rows so far.
Told told_of(const RunRow& row, const Settings& config, std::vector<std::string>& machines) {
  const Run& run = *row.run;
  Told told{fmt::format("{} on {}", run.strategy, run.world_size), {}};
  std::vector<TellingWords> of_all = {{"machine", lettered_machine(machines, *row.report), {}},
                                      {"build", build_words(row.report->generator), {}}};
  // The subtitle names the CPU.
  const bool known_model = run.device_model == row.report->environment.cpu.model;
  for (const SettingWords& setting : name_words(run)) {
    (setting.of_strategy ? told.words : of_all)
        .push_back({setting.key,
                    setting.key == "device" && known_model ? run.device : setting.words,
                    setting.of_strategy ? run.strategy : "", is_usual_without(setting.key)});
  }
  for (const auto& [key, value] : config) of_all.push_back({key, value_words(key, value), {}});
  std::ranges::move(of_all, std::back_inserter(told.words));
  return told;
}

// The name of the line of each run, in the order of `runs`: the strategy, then each setting in
// which runs differ. Servers, backend and strategy options are compared among runs of the same
// strategy; network, batch, machine, ... among all. A run without one of the settings that reports
// name where they are unusual (is_usual_without()) differs from those that have it. Runs of equal
// settings have the same name, which says so where any of them is approximate: on one device it
// may be exact.
std::vector<std::string> series_names(std::span<const RunRow> runs) {
  std::map<const Report*, Settings> configs;  // parsing one for each run would be slow
  std::vector<Told> all;
  std::vector<std::string> machines;
  for (const RunRow& row : runs) {
    const auto [config, added] = configs.try_emplace(row.report);
    if (added) config->second = config_settings(*row.report, kNameUse);
    all.push_back(told_of(row, config->second, machines));
  }
  const auto different = telling(all);
  std::vector<std::string> names;
  std::set<std::string> approximate;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    names.push_back(runs[i].run->strategy);
    for (const TellingWords& word : all[i].words)
      if (different.contains({word.scope, word.key})) names.back() += ", " + word.words;
    if (runs[i].run->verification.is_approximate()) approximate.insert(names.back());
  }
  for (std::string& name : names)
    if (approximate.contains(name)) name += ", approximate";
  return names;
}

// Why no chart draws this run; empty when a chart may.
std::string ended_badly(const Run& run) {
  if (!is_complete(run)) {
    const std::string why = run.error ? run.error->message : run.reason;
    return fmt::format("{}{}{}", to_string(run.status), why.empty() ? "" : ": ", why);
  }
  return run.verification.status == "failed" ? "the verification failed" : "";
}

struct Named {
  RunRow from;
  std::string series;
};

// Sets the series and the groups of a chart: by strategy, name and devices.
void group_runs(std::vector<Named> runs, ChartRuns& chart) {
  std::ranges::stable_sort(runs, {}, [](const Named& named) {
    return std::make_tuple(strategy_rank(named.from.run->strategy), NaturalName{named.series},
                           named.from.run->world_size);
  });
  std::map<std::string, std::size_t> styles, variants;  // by strategy
  std::size_t free = kFirstFreeStyle;
  for (const auto& [from, name] : runs) {
    const Run& run = *from.run;
    if (chart.series.empty() || chart.series.back().name != name) {
      const std::size_t rank = strategy_rank(run.strategy);
      const auto [style, is_new] = styles.try_emplace(run.strategy, rank);
      if (is_new && rank >= kFirstFreeStyle) style->second = free++;
      chart.series.push_back({name, style->second, variants[run.strategy]++, run.predicted});
    }
    const std::size_t series = chart.series.size() - 1;
    if (chart.groups.empty() || chart.groups.back().series != series ||
        chart.groups.back().devices != run.world_size) {
      chart.groups.push_back({{series, run.world_size, {}, false}});
    }
    chart.groups.back().runs.push_back(&run);
    chart.groups.back().oversubscribed |= run.oversubscribed;
  }
  for (RunGroup& group : chart.groups) {
    const std::string& name = chart.series[group.series].name;
    const std::size_t end = group.runs[0]->strategy.size();
    group.name = fmt::format("{} on {}{}{}", name.substr(0, end), group.devices,
                             group.oversubscribed ? "*" : "", name.substr(end));
  }
}

// "ddp on 4 (x3), dp on 2".
std::string places_text(const std::vector<std::string>& places) {
  std::vector<std::string> words;
  std::set<std::string> told;
  for (const std::string& name : places) {
    if (!told.insert(name).second) continue;
    const auto count = std::ranges::count(places, name);
    words.push_back(count > 1 ? fmt::format("{} (x{})", name, count) : name);
  }
  return joined(words, ", ");
}

void limit_groups(ChartRuns& runs, std::size_t most) {
  const std::size_t all = runs.groups.size();
  if (all <= most) return;
  const auto dropped = runs.groups | std::views::drop(most);
  runs.no_room =
      fmt::format("no room for {} of {} in a picture: {}; the options that choose runs make room",
                  dropped.size(), all, places_text(mapped(dropped, &RunGroup::name)));
  runs.groups.resize(most);
  runs.series.resize(runs.groups.back().series + 1);
}

ChartCaption caption_of(std::span<const RunRow> runs, const std::string& what) {
  return {
      what + ": " + title_words(runs, kChartTitleUse),
      machines_text(mapped(runs, &RunRow::report)) + "; " + title_words(runs, kChartSubtitleUse),
      {}};
}

}  // namespace

void note_interrupted(std::span<const Report> reports, ChartCaption& caption) {
  const auto count = std::ranges::count(reports, Status::interrupted, &Report::status);
  if (count == 0) return;
  caption.notes.push_back(fmt::format("{} of {} interrupted: runs are missing", count,
                                      counted(reports.size(), "report")));
}

void LeftOut::add(const std::string& name, const std::string& reason) {
  reasons_.emplace_back(reason, name);
}

std::string LeftOut::note() const {
  const auto by_reason = grouped(reasons_, &Reason::first);
  return "left out: " + joined(by_reason, "; ", [](const auto& group) {
           return fmt::format("{} ({})", places_text(mapped(group.second, &Reason::second)),
                              group.first);
         });
}

ChartRuns chart_runs(std::span<const Report> reports, const std::string& what, Unfit unfit,
                     std::size_t most) {
  ChartRuns result;
  std::vector<RunRow> drawn;
  for (const Report& report : reports) {
    for (const Run& run : report.runs) {
      std::string reason = ended_badly(run);
      if (reason.empty()) reason = unfit(run);
      if (reason.empty()) {
        drawn.push_back({&report, &run});
      } else {
        result.left_out.add(fmt::format("{} on {}", run.strategy, run.world_size), reason);
      }
    }
  }
  if (drawn.empty()) {
    result.empty_reason = result.left_out.empty() ? "there are no runs" : result.left_out.note();
    return result;
  }
  result.caption = caption_of(drawn, what);
  note_interrupted(reports, result.caption);
  for (const Report& report : reports)
    for (const Warning& warning : condition_warnings(report))
      result.caption.notes.push_back("measured while " + printable(warning.text));
  const std::vector<std::string> names = series_names(drawn);
  std::vector<Named> named;
  for (std::size_t i = 0; i < drawn.size(); ++i) named.push_back({drawn[i], names[i]});
  group_runs(std::move(named), result);
  limit_groups(result, most);
  result.drawn = std::move(drawn);
  return result;
}

void add_last_notes(const ChartRuns& runs, ChartCaption& caption) {
  std::vector<std::string>& notes = caption.notes;
  const auto crowded = std::ranges::find_if(runs.groups, &RunGroup::oversubscribed);
  if (crowded != runs.groups.end()) {
    notes.push_back(fmt::format("* or hollow: oversubscribed, {}: says nothing about scaling",
                                crowd_words(*crowded->runs.front())));
  }
  if (std::ranges::any_of(runs.series, &ChartSeries::predicted))
    notes.emplace_back("dashed, far apart: predicted, not measured (ddpbench predict)");
  if (!runs.no_room.empty()) notes.push_back(runs.no_room);
  if (!runs.left_out.empty()) notes.push_back(runs.left_out.note());
}

std::string repetitions_note(const std::vector<Spread>& points) {
  const auto [least, most] = std::ranges::minmax(mapped(points, &Spread::count));
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

std::size_t index_in(std::vector<std::string>& names, const std::string& name) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) found = names.insert(found, name);
  return static_cast<std::size_t>(found - names.begin());
}

static std::string machine_letter(std::vector<std::string>& machines, const std::string& machine) {
  const std::size_t index = index_in(machines, machine);
  const std::string first(1, static_cast<char>('A' + index % 26));
  return index < 26 ? first : first + std::to_string(index / 26);
}

std::string lettered_machine(std::vector<std::string>& machines, const Report& report) {
  return "machine " + machine_letter(machines, machine_words(report));
}

std::string machines_text(std::span<const Report* const> reports) {
  std::vector<std::string> machines;
  std::string text = "different machines";
  for (const Report* report : reports) {
    const std::size_t known = machines.size();
    const std::string name = machine_words(*report), letter = machine_letter(machines, name);
    if (machines.size() > known)
      text += fmt::format("{} {}: {}", known == 0 ? ":" : ";", letter, name);
  }
  return machines.size() == 1 ? hardware_words(reports.front()->environment) : text;
}

}  // namespace ddpbench::report
