// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_pairing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

// `own` and the settings that all runs of the report share.
Settings with_common(Settings own, const Settings& common) {
  own.insert(common.begin(), common.end());
  return own;
}

// A skipped run does not know its backend.
bool same_place(const PairKey& a, const PairKey& b) {
  return std::tie(a.strategy, a.world_size, a.servers, a.collective, a.bytes) ==
             std::tie(b.strategy, b.world_size, b.servers, b.collective, b.bytes) &&
         (a.backend == b.backend || a.backend.empty() || b.backend.empty());
}

bool fits(const Cell& a, const Cell& b) {
  return same_place(a.key, b.key) && a.injected == b.injected &&
         differing_keys(a.settings, b.settings).empty();
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
          telling[name] = name + '=' + cell->settings.at(name);
        }
        if (cell->injected != other->injected) {
          telling["injected"] = "injected=" + (cell->injected.empty() ? "nothing" : cell->injected);
        }
      }
      std::vector<std::string> words;
      for (const auto& [name, word] : telling) words.push_back(word);
      cell->setting = fmt::format("{}", fmt::join(words, ", "));
    }
  }
}

// A cell for each run and each collective of the reports, in their order.
std::vector<Cell> single_cells(std::span<const Report> reports, std::deque<Run>& collectives) {
  std::vector<Cell> cells;
  for (const Report& report : reports) {
    const Settings common = config_settings(report, kPairUse);
    for (const Run& run : report.runs) {
      cells.push_back({pair_key(run),
                       with_common(settings_of(run, kPairUse), common),
                       run.injected,
                       {&run},
                       {}});
    }
    for (const CollectiveRow& row : report.collectives) {
      collectives.push_back(run_of(report, row));
      cells.push_back(
          {collective_key(row), collective_settings(row), {}, {&collectives.back()}, {}});
    }
  }
  return cells;
}

std::vector<Cell> cells_of(std::span<const Report> reports, std::deque<Run>& collectives) {
  std::vector<Cell> cells;
  std::map<std::tuple<PairKey, Settings, std::string>, std::size_t> index;
  std::vector<Cell> unwell;
  for (Cell& cell : single_cells(reports, collectives)) {
    const Run* run = cell.runs.front();
    if (!is_complete(*run)) {
      unwell.push_back(std::move(cell));
      continue;
    }
    const auto [found, added] =
        index.try_emplace({cell.key, cell.settings, cell.injected}, cells.size());
    if (added) {
      cells.push_back(std::move(cell));
    } else {
      cells[found->second].runs.push_back(run);
    }
  }
  for (Cell& cell : unwell) {
    const auto home = std::ranges::find_if(cells, [&](const Cell& c) { return fits(c, cell); });
    if (home == cells.end()) {
      cells.push_back(std::move(cell));
    } else {
      home->runs.push_back(cell.runs.front());
    }
  }
  name_settings(cells);
  return cells;
}

class Pairer {
 public:
  Pairer(std::vector<Cell> candidate, std::vector<Cell> base, std::span<const std::string> allowed)
      : candidate_(std::move(candidate)),
        base_(std::move(base)),
        allowed_(allowed),
        partner_(candidate_.size()),
        taken_(base_.size(), false) {}

  Pairing pair() {
    match_injected([](const Differing& differing) { return differing.empty(); });
    match_injected([this](const Differing& differing) {
      return std::ranges::all_of(
          differing, [this](const std::string& key) { return is_allowed(key, allowed_); });
    });
    refuse_mismatches();
    Pairing pairing;
    for (std::size_t i = 0; i < candidate_.size(); ++i) {
      if (!partner_[i]) {
        pairing.candidate_alone.push_back(std::move(candidate_[i]));
        continue;
      }
      Cell& base = base_[*partner_[i]];
      auto differing = differing_keys(candidate_[i].settings, base.settings);
      pairing.pairs.push_back({std::move(candidate_[i]), std::move(base), std::move(differing)});
    }
    for (std::size_t j = 0; j < base_.size(); ++j) {
      if (!taken_[j]) pairing.base_alone.push_back(std::move(base_[j]));
    }
    return pairing;
  }

 private:
  using Differing = std::vector<std::string>;  // keys

  // The free, acceptable cell of the baseline with the fewest differing keys.
  template <typename Acceptable>
  std::optional<std::size_t> nearest(const Cell& cell, Acceptable acceptable) const {
    std::optional<std::size_t> best;
    std::size_t fewest = 0;
    for (std::size_t j = 0; j < base_.size(); ++j) {
      if (taken_[j] || !same_place(cell.key, base_[j].key)) continue;
      const Differing differing = differing_keys(cell.settings, base_[j].settings);
      if ((best && differing.size() >= fewest) || !acceptable(base_[j], differing)) {
        continue;
      }
      best = j;
      fewest = differing.size();
    }
    return best;
  }

  // First matches cells with equal planted faults, then the remaining ones in spite of their
  // faults.
  template <typename Acceptable>
  void match_injected(Acceptable acceptable) {
    match([&](const Cell& candidate, const Cell& base, const Differing& differing) {
      return candidate.injected == base.injected && acceptable(differing);
    });
    match([&](const Cell&, const Cell&, const Differing& differing) {
      return acceptable(differing);
    });
  }

  template <typename Acceptable>
  void match(Acceptable acceptable) {
    for (std::size_t i = 0; i < candidate_.size(); ++i) {
      if (partner_[i]) continue;
      const auto j = nearest(candidate_[i], [&](const Cell& base, const Differing& differing) {
        return acceptable(candidate_[i], base, differing);
      });
      if (!j) continue;
      partner_[i] = j;
      taken_[*j] = true;
    }
  }

  // Throws if cells of one key are left on both sides: their settings differ.
  void refuse_mismatches() const {
    std::string lines;
    std::vector<std::string> keys;
    const auto anything = [](const Cell&, const Differing&) { return true; };
    for (std::size_t i = 0; i < candidate_.size(); ++i) {
      const auto j = partner_[i] ? std::nullopt : nearest(candidate_[i], anything);
      if (!j) continue;
      lines += fmt::format("\n  {}:", to_string(candidate_[i].key, candidate_[i].setting));
      for (const std::string& key : differing_keys(candidate_[i].settings, base_[*j].settings)) {
        lines += fmt::format("\n    {}: new {}, baseline {}", key, candidate_[i].settings.at(key),
                             base_[*j].settings.at(key));
        if (!is_allowed(key, allowed_) && std::ranges::find(keys, key) == keys.end()) {
          keys.push_back(key);
        }
      }
    }
    if (lines.empty()) return;
    throw ConfigError(fmt::format(
        "these settings differ between the new runs and the baseline:{}\nCompare like with like, "
        "or accept it with --allow-mismatch={}",
        lines, fmt::join(keys, ",")));
  }

  std::vector<Cell> candidate_, base_;
  std::span<const std::string> allowed_;
  std::vector<std::optional<std::size_t>> partner_;
  std::vector<bool> taken_;
};

}  // namespace

PairKey pair_key(const Run& run) {
  return {run.strategy, run.world_size, run.servers, run.backend, false, 0};
}

Settings pair_settings(const Report& report, const Run& run) {
  return with_common(settings_of(run, kPairUse), config_settings(report, kPairUse));
}

PairKey collective_key(const CollectiveRow& row) {
  return {row.operation, row.ranks, 0, row.backend, true, row.bytes};
}

Settings collective_settings(const CollectiveRow& row) {
  Settings settings = {{"data_type", row.data_type},
                       {"redop", row.reduction},
                       {"all_reduce", row.all_reduce},
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

Run run_of(const Report& report, const CollectiveRow& row) {
  Run run;
  run.strategy = row.operation;
  run.world_size = row.ranks;
  run.backend = row.backend;
  run.device = row.device;
  run.device_model = row.device_model;
  run.oversubscribed = row.oversubscribed;
  run.step.count = row.iterations;
  run.step.time_s = row.time_s;
  run.status = row.time_s                             ? Status::ok
               : report.status == Status::interrupted ? Status::interrupted
                                                      : Status::failed;
  if (!row.time_s) run.reason = row.wrong_reason;
  run.verification.status = "not_applicable";
  run.verification.reason = row.wrong_reason;
  if (row.wrong) run.verification.status = *row.wrong == 0 ? "passed" : "failed";
  if (row.wrong.value_or(0) > 0) {
    run.verification.reason = fmt::format("{} of the results", counted(*row.wrong, "element")) +
                              (*row.wrong == 1 ? " is wrong" : " are wrong");
  }
  return run;
}

bool is_allowed(const std::string& key, std::span<const std::string> allowed) {
  return std::ranges::any_of(allowed, [&key](const std::string& name) {
    return key == name || key.starts_with(name + '/') || key.ends_with('/' + name);
  });
}

Pairing pair_runs(std::span<const Report> candidate, std::span<const Report> base,
                  std::span<const std::string> allowed) {
  std::deque<Run> collectives;
  std::vector<Cell> candidate_cells = cells_of(candidate, collectives);
  std::vector<Cell> base_cells = cells_of(base, collectives);
  Pairing pairing = Pairer(std::move(candidate_cells), std::move(base_cells), allowed).pair();
  pairing.collectives = std::move(collectives);  // its elements keep their places
  return pairing;
}

}  // namespace ddpbench::report
