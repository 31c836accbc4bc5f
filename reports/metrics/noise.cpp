// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// Caches may make several devices somewhat more than so many times as fast.
constexpr double kSuperlinear = 0.05;

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

Yardstick yardstick_of(const Contest& contest) {
  std::vector<const Standing*> candidates;
  for (const Standing& standing : contest.standings) {
    const Run& run = *standing.runs.front().run;
    if (run.world_size == 1 && run.servers == 0 && !run.oversubscribed)
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
  std::vector<std::string> found;
  for (const Run* run : runs) {
    std::string words = run->conditions ? disturbance_words(*run->conditions) : "";
    if (!words.empty()) found.push_back(std::move(words));
  }
  return 2 * found.size() >= runs.size() && !found.empty() ? found[0] : "";
}

bool beyond_ideal(double speedup, int devices) {
  return devices > 1 && speedup > devices * (1 + kSuperlinear);
}

std::string scaling_doubt(std::span<const Run* const> runs, std::span<const Run* const> baseline) {
  if (std::string words = disturbance(runs); !words.empty()) return words;
  if (const std::string words = disturbance(baseline); !words.empty())
    return fmt::format("baseline disturbed: {}", words);
  std::vector<double> speedups;
  for (const Run* run : runs)
    if (run->scaling) speedups.push_back(run->scaling->speedup);
  if (speedups.empty()) return {};
  const double speedup = median_rate(std::move(speedups));
  if (!beyond_ideal(speedup, runs[0]->world_size)) return {};
  return fmt::format("baseline disturbed: {} cannot be {:.1f} times as fast as one",
                     counted(runs[0]->world_size, "device"), speedup);
}

Yardstick find_yardstick(std::span<const Contest> contests) {
  Yardstick best;
  for (const Contest& contest : contests) {
    Yardstick found = yardstick_of(contest);
    if (found.runs.size() > best.runs.size()) best = std::move(found);
  }
  return best;
}

}  // namespace ddpbench::report
