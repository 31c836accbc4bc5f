// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/ranges.h"
#include "reports/gate/gate_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

using Keys = std::vector<std::string>;

// What must be equal in two rows that are compared, beside their key.
Settings collective_settings(const CollectiveRow& row) {
  Settings settings = {{"data_type", row.data_type},
                       {"redop", row.reduction},
                       {"all_reduce", row.all_reduce},
                       {"emulated_link", row.emulated_link.empty() ? "none" : row.emulated_link},
                       {"mode", row.mode},
                       {"in_place", row.in_place ? "true" : "false"},
                       {"device", row.device},
                       {"device_model", row.device_model},
                       {"oversubscribed", row.oversubscribed ? "true" : "false"}};
  // A row that ended early does not know how many it would have done.
  if (row.time_s) settings["iterations"] = std::to_string(row.iterations);
  std::erase_if(settings, [](const auto& setting) { return setting.second.empty(); });
  return settings;
}

// A run with the time of the iterations as that of its steps. It is verified when no element was
// wrong, and failed or interrupted, as `report` is, when no iteration was timed.
Run run_of(const Report& report, const CollectiveRow& row) {
  Run run;
  run.strategy = row.operation;
  run.world_size = row.ranks;
  run.backend = row.backend;
  run.step.count = row.iterations;
  run.step.time_s = row.time_s;
  if (!row.time_s) {
    run.status = report.status == Status::interrupted ? Status::interrupted : Status::failed;
    run.reason = row.wrong_reason;
  }
  run.verification.status = "not_applicable";
  run.verification.reason = row.wrong_reason;
  if (row.wrong) run.verification.status = *row.wrong == 0 ? "passed" : "failed";
  if (row.wrong.value_or(0) > 0) {
    run.verification.reason = counted(*row.wrong, "wrong element") + " in the results";
  }
  return run;
}

// A skipped run does not know its backend.
bool same_place(const PairKey& a, const PairKey& b) {
  return std::tie(a.strategy, a.world_size, a.servers, a.collective, a.bytes) ==
             std::tie(b.strategy, b.world_size, b.servers, b.collective, b.bytes) &&
         (a.backend == b.backend || a.backend.empty() || b.backend.empty());
}

// Sets Cell::setting: how each cell differs from others of its key.
void name_settings(std::vector<Cell>& cells) {
  std::map<PairKey, std::vector<Cell*>> by_key;
  for (Cell& cell : cells) by_key[cell.key].push_back(&cell);
  for (const auto& [key, group] : by_key) {
    for (Cell* cell : group) {
      Settings telling;
      for (const Cell* other : group) {
        for (const std::string& name : differing_keys(cell->settings, other->settings)) {
          telling[name] = cell->settings.at(name);
        }
        if (cell->injected != other->injected) {
          telling["injected"] = cell->injected.empty() ? "nothing" : cell->injected;
        }
      }
      cell->setting = joined(
          telling, ", ", [](const auto& setting) { return setting.first + '=' + setting.second; });
    }
  }
}

std::vector<Cell> cells_of(std::span<const Report> reports, std::deque<Run>& collectives) {
  std::vector<Cell> cells, unwell;
  std::map<std::tuple<PairKey, Settings, std::string>, std::size_t> index;
  for (Cell& cell : single_cells(reports, collectives)) {
    if (!is_complete(*cell.runs.front())) {
      unwell.push_back(std::move(cell));
      continue;
    }
    const auto [found, added] =
        index.try_emplace({cell.key, cell.settings, cell.injected}, cells.size());
    if (added) {
      cells.push_back(std::move(cell));
    } else {
      cells[found->second].runs.push_back(cell.runs.front());
    }
  }
  for (Cell& cell : unwell) {
    const auto home = std::ranges::find_if(cells, [&](const Cell& other) {
      return same_place(cell.key, other.key) && cell.injected == other.injected &&
             differing_keys(cell.settings, other.settings).empty();
    });
    if (home == cells.end()) {
      cells.push_back(std::move(cell));
    } else {
      home->runs.push_back(cell.runs.front());
    }
  }
  name_settings(cells);
  return cells;
}

bool is_allowed(const std::string& key, std::span<const std::string> allowed) {
  return std::ranges::any_of(allowed, [&key](const std::string& name) {
    return key == name || key.starts_with(name + '/') || key.ends_with('/' + name);
  });
}

// The cells of both sides, and which of them found each other.
struct Matching {
  std::vector<Cell> candidate, base;
  std::vector<std::optional<std::size_t>> partner = {};  // [candidate] in base
  std::vector<bool> taken = {};                          // [base]

  // The free, acceptable cell of the baseline with the fewest differing keys.
  std::optional<std::size_t> nearest(const Cell& cell, auto acceptable) const {
    std::optional<std::size_t> best;
    std::size_t fewest = SIZE_MAX;
    for (std::size_t j = 0; j < base.size(); ++j) {
      if (taken[j] || !same_place(cell.key, base[j].key)) continue;
      const Keys differing = differing_keys(cell.settings, base[j].settings);
      if (differing.size() >= fewest || !acceptable(base[j], differing)) continue;
      best = j;
      fewest = differing.size();
    }
    return best;
  }

  // Throws if cells of one key are left on both sides: their settings differ.
  void refuse_rest(std::span<const std::string> allowed) const {
    std::string lines;
    Keys keys;
    for (std::size_t i = 0; i < candidate.size(); ++i) {
      if (partner[i]) continue;
      const Cell& cell = candidate[i];
      const auto j = nearest(cell, [](const Cell&, const Keys&) { return true; });
      if (!j) continue;
      lines += fmt::format("\n  {}:", to_string(cell.key, cell.setting));
      for (const std::string& key : differing_keys(cell.settings, base[*j].settings)) {
        lines += fmt::format("\n    {}: new {}, baseline {}", key, cell.settings.at(key),
                             base[*j].settings.at(key));
        if (!is_allowed(key, allowed) && std::ranges::count(keys, key) == 0) keys.push_back(key);
      }
    }
    if (lines.empty()) return;
    throw ConfigError(fmt::format(
        "these settings differ between the new runs and the baseline:{}\nCompare like with like, "
        "or accept it with --allow-mismatch={}",
        lines, fmt::join(keys, ",")));
  }
};

}  // namespace

std::vector<Cell> single_cells(std::span<const Report> reports, std::deque<Run>& collectives) {
  std::vector<Cell> cells;
  for (const Report& report : reports) {
    const Settings common = config_settings(report, kPairUse);
    for (const Run& run : report.runs) {
      Settings settings = settings_of(run, kPairUse);
      settings.insert(common.begin(), common.end());
      cells.push_back({{run.strategy, run.world_size, run.servers, run.backend, false, 0},
                       std::move(settings),
                       run.injected,
                       {&run}});
    }
    for (const CollectiveRow& row : report.collectives) {
      cells.push_back({{row.operation, row.ranks, 0, row.backend, true, row.bytes},
                       collective_settings(row),
                       "",
                       {&collectives.emplace_back(run_of(report, row))}});
    }
  }
  return cells;
}

Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed) {
  Pairing pairing;
  Matching all{cells_of(candidate, pairing.collectives), cells_of(base, pairing.collectives)};
  all.partner.resize(all.candidate.size());
  all.taken.resize(all.base.size());
  for (const bool equal : {true, false}) {
    for (const bool same_faults : {true, false}) {
      for (std::size_t i = 0; i < all.candidate.size(); ++i) {
        if (all.partner[i]) continue;
        const Cell& cell = all.candidate[i];
        all.partner[i] = all.nearest(cell, [&](const Cell& other, const Keys& differing) {
          return (!same_faults || cell.injected == other.injected) &&
                 std::ranges::all_of(differing, [&](const std::string& key) {
                   return !equal && is_allowed(key, allowed);
                 });
        });
        if (all.partner[i]) all.taken[*all.partner[i]] = true;
      }
    }
  }
  all.refuse_rest(allowed);
  for (std::size_t i = 0; i < all.candidate.size(); ++i) {
    Cell& cell = all.candidate[i];
    if (!all.partner[i]) {
      pairing.candidate_alone.push_back(std::move(cell));
      continue;
    }
    Cell& other = all.base[*all.partner[i]];
    Keys differing = differing_keys(cell.settings, other.settings);
    pairing.pairs.push_back({std::move(cell), std::move(other), std::move(differing)});
  }
  for (std::size_t j = 0; j < all.base.size(); ++j) {
    if (!all.taken[j]) pairing.base_alone.push_back(std::move(all.base[j]));
  }
  return pairing;
}

}  // namespace ddpbench::report
