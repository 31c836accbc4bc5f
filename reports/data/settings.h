// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The settings of a run: one table that says of each setting where it matters.
//
// Repetitions, the gate's pairs, baselines of the scaling, names and titles all follow from this
// table. There is no other list, so a new setting is one new row.
//
// Two settings have no row. Runs with different seeds are repetitions of each other, and the number
// of the repetition tells equal runs apart.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Bits of Setting::uses.
enum SettingUse : unsigned {
  kCellUse = 1U << 0U,           // equal in all repetitions of a cell; known before the run
  kPairKeyUse = 1U << 1U,        // the gate compares no runs that differ in it
  kPairUse = 1U << 2U,           // the same, unless --allow-mismatch names it
  kWeakWorkUse = 1U << 3U,       // equal in a run and its baseline, in weak scaling
  kStrongWorkUse = 1U << 4U,     // the same, in strong scaling
  kNameUse = 1U << 5U,           // names of runs state it where runs differ in it
  kStrategyNameUse = 1U << 6U,   // the same, where runs of one strategy differ in it
  kTableTitleUse = 1U << 7U,     // the heading of a table states it
  kChartTitleUse = 1U << 8U,     // the title of a chart states it
  kChartSubtitleUse = 1U << 9U,  // the subtitle of a chart states it
  kRankUse = 1U << 10U,          // equal in runs that compete (metrics/ranking.h)
};
inline constexpr unsigned kWorkUse = kWeakWorkUse | kStrongWorkUse;

// Values as text by their keys in a run of a report ("optimizer/lr"). Values that a run did not
// record are absent: the run was skipped, or another program wrote the report.
using Settings = std::map<std::string, std::string>;

// One row of the table. One of `value`, `values` and `config_key` says where the value is read.
struct Setting {
  // "precision", "dataset/name"; with `values` their group, "optimizer" of "optimizer/lr".
  std::string_view key;
  unsigned uses = 0;
  // Returns the value; empty where the run has none.
  std::string (*value)(const Run& run) = nullptr;
  // Returns the setting in words, "batch 32 a device"; empty where there is nothing to say. Null:
  // use setting_words().
  std::string (*words)(const Run& run) = nullptr;
  // What titles say of runs without words beside others that have some: "not augmented". Empty:
  // nothing.
  std::string_view without = {};
  // Returns values by their keys within the group.
  Settings (*values)(const Run& run) = nullptr;
  // A key of the report's configuration, which all of its runs share.
  std::string_view config_key = {};
};

// The different ones of `words`, which runs have for one setting, in order of appearance. Empty
// ones are left out, or are `without` where others are not empty.
std::vector<std::string> different_words(const std::vector<std::string>& words,
                                         std::string_view without);

// Whether reports name this value ("strategy_options/sync_batch_norm") only where it is another
// than the usual one. A run that has none then differs from one that has. Of other values the run
// may be older than the choice.
bool is_usual_without(std::string_view key);

// All settings, in the order in which names and titles state them.
std::span<const Setting> setting_table();

// The run's values whose settings have any of the bits `uses`, without those of `config_key`.
Settings settings_of(const Run& run, unsigned uses);
// The values of the report's configuration whose settings have any of the bits `uses`.
Settings config_settings(const Report& report, unsigned uses);
// The keys that both have with different values.
std::vector<std::string> differing_keys(const Settings& a, const Settings& b);

// "overlap off" of "strategy_options/overlap", "lr 0.1" of "optimizer/lr", "residency device";
// empty where there is nothing to say.
std::string value_words(std::string_view key, const std::string& value);
// The words of the setting, or else those of its value. REQUIRES: it has one of the two.
std::string setting_words(const Setting& setting, const Run& run);

// "cpu (Imaginary 9000)"; only `word` where `note` is empty.
std::string with_note(const std::string& word, const std::string& note);

// A setting that names state, in words. `key` is the same for all runs.
struct SettingWords {
  std::string key, words;
  bool of_strategy = false;  // compared with runs of the same strategy only
};
// The settings that may tell a run from others, in the order of a name; none with empty words.
std::vector<SettingWords> name_words(const Run& run);

// Equal for the repetitions of a cell, and known before a run is made.
inline Settings cell_key(const Run& run) { return settings_of(run, kCellUse); }

// What reports know of strategies: the only list of their names in reports/. A report of another
// program may name a strategy that is not listed.

// The strategy that the others are measured against.
inline constexpr const char* kBaseline = "single";

struct StrategyRow {
  std::string_view name;
  // The collective that carries the gradients and has a bus bandwidth ("all_reduce"); empty: none.
  std::string_view collective = {};
  bool through_primary = false;  // all gradients pass through device 0
  bool gathers_weights = false;  // its buckets of weights follow those of gradients
  bool gathers_units = false;    // of weights, within forward and backward
};

// The order is that of tables and charts.
std::span<const StrategyRow> strategy_rows();
// The row of that name; for an unknown strategy a row with only the name.
StrategyRow strategy_row(std::string_view name);
// The index in strategy_rows(), or their number for an unknown strategy.
std::size_t strategy_rank(std::string_view name);

}  // namespace ddpbench::report
