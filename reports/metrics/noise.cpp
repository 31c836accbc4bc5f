// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::report {
namespace {

// Caches may make several devices somewhat more than so many times as fast.
constexpr double kSuperlinear = 0.05;
// Of so many repetitions one may be disturbed: the comparison draws in as many (comparison.h).
constexpr std::size_t kFewestForOneDisturbed = 4;

// Whether they differ in more than the strategy, which on one device makes no difference.
bool differs_in_more(const Run& a, const Run& b) {
  Settings mine = cell_key(a), theirs = cell_key(b);
  for (const auto& [from, to] : {std::pair(mine, &theirs), std::pair(theirs, &mine)})
    for (const auto& [key, value] : from)
      if (is_usual_without(key)) to->try_emplace(key);
  const std::vector<std::string> keys = differing_keys(mine, theirs);
  return std::ranges::any_of(keys, [](const std::string& key) {
    return key != "strategy" && key != "backend" && key != "label";
  });
}

Yardstick yardstick_of(const Contest& contest, bool of_all) {
  std::vector<const Standing*> candidates;
  for (const Standing& standing : contest.standings) {
    const Run& run = *standing.runs.front().run;
    if (run.world_size == 1 && run.servers == 0 && !run.oversubscribed &&
        (of_all || disturbance(standing).empty()))
      candidates.push_back(&standing);
  }
  std::ranges::stable_partition(
      candidates, [](const Standing* one) { return one->runs.front().run->strategy == kBaseline; });
  std::vector<double> rates;
  Yardstick found;
  for (const Standing* one : candidates) {
    const Run& first = *candidates[0]->runs.front().run;
    if (differs_in_more(*one->runs.front().run, first)) continue;
    rates.push_back(one->samples_per_s);
    for (const RunRow& row : one->runs) found.runs.insert(row.run);
  }
  if (rates.size() < 2) return {};
  const auto [least, most] = std::ranges::minmax(rates);
  const auto batch = static_cast<double>((*found.runs.begin())->global_batch_size);
  found.spread = most / least - 1;
  found.least_step_s = batch / most;
  found.most_step_s = batch / least;
  return found;
}

}  // namespace

std::string disturbance(std::span<const Run* const> runs) {
  std::vector<std::string> found =
      mapped(runs, [](const Run* run) { return disturbance_words(*run); });
  std::erase(found, "");
  return found.size() > runs.size() / kFewestForOneDisturbed ? found[0] : "";
}

std::string disturbance(const Standing& standing) {
  return disturbance(mapped(standing.runs, &RunRow::run));
}

bool beyond_ideal(double speedup, int devices) {
  return devices > 1 && speedup > devices * (1 + kSuperlinear);
}

std::vector<std::vector<const Run*>> mark_doubts(std::span<RunRow> rows) {
  std::map<const Report*, Baselines> baselines;
  for (const RunRow& row : rows) baselines.try_emplace(row.report, *row.report);
  std::vector<std::vector<const Run*>> divisors;
  std::map<const Run*, std::string> beyond;  // why the baseline cannot be true
  for (RunRow& row : rows) {
    const Run& run = *row.run;
    const std::vector<const Run*>& own = divisors.emplace_back(baselines.at(row.report).of(run));
    row.doubt = disturbance(runs_of_row(row));
    if (const std::string words = disturbance(own); row.doubt.empty() && !words.empty())
      row.doubt = "baseline disturbed: " + words;
    row.is_warned = !row.doubt.empty();
    if (!run.scaling || !beyond_ideal(run.scaling->speedup, run.world_size)) continue;
    const std::string words =
        fmt::format("baseline disturbed: {} cannot be {:.1f} times as fast as one",
                    counted(run.world_size, "device"), run.scaling->speedup);
    if (row.doubt.empty()) row.doubt = words;
    for (const Run* baseline : own) beyond.emplace(baseline, words);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const Run* baseline : divisors[i])
      if (rows[i].run->scaling && rows[i].doubt.empty() && beyond.contains(baseline))
        rows[i].doubt = beyond.at(baseline);
  return divisors;
}

std::map<const Run*, std::string> doubts_of(std::span<const RunRow> rows) {
  const CondensedRows condensed(rows);
  std::vector<RunRow> settings = condensed.rows();
  mark_doubts(settings);
  std::map<const Run*, std::string> doubts;
  for (const RunRow& row : settings)
    for (const Run* run : runs_of_row(row)) doubts[run] = row.doubt;
  return doubts;
}

Yardstick find_yardstick(std::span<const Contest> contests, bool of_all) {
  Yardstick best;
  for (const Contest& contest : contests) {
    Yardstick found = yardstick_of(contest, of_all);
    if (found.runs.size() > best.runs.size()) best = std::move(found);
  }
  return best;
}

}  // namespace ddpbench::report
