// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a run is asked to be: one table of all settings, and what each of them takes part in.
//
// Repetitions, the gate's pairs, baselines of the scaling, names and titles all follow from this
// table. A setting that is added here takes part in what its row says, and nowhere else is a list.
//
// Two settings of a report take part in nothing. The seed is a draw: runs of several seeds are
// repetitions. The repetition tells equal runs apart.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Bits of Setting::uses.
enum SettingUse : unsigned {
  kCellUse = 1U << 0U,           // repetitions of one cell have it in common; known before the run
  kPairKeyUse = 1U << 1U,        // the gate holds no run against one in which it differs
  kPairUse = 1U << 2U,           // the gate refuses to, unless --allow-mismatch names it
  kWeakWorkUse = 1U << 3U,       // a run and its baseline have it in common in weak scaling,
  kStrongWorkUse = 1U << 4U,     // and in strong scaling
  kNameUse = 1U << 5U,           // names of runs say it where runs differ in it
  kStrategyNameUse = 1U << 6U,   // the same, where runs of one strategy differ in it
  kTableTitleUse = 1U << 7U,     // the heading of a table says it
  kChartTitleUse = 1U << 8U,     // the title of a chart says it,
  kChartSubtitleUse = 1U << 9U,  // or its subtitle
};
inline constexpr unsigned kWorkUse = kWeakWorkUse | kStrongWorkUse;

// Keys, as a run of a report has them ("optimizer/lr"), and values as text. What a run did not
// record, because it was skipped or an older version wrote it, is absent.
using Settings = std::map<std::string, std::string>;

// One row of the table. Either `value`, `values` or `config_key` says where the value is read.
struct Setting {
  // "precision", "dataset/name". The group of `values`: "optimizer" of "optimizer/lr".
  std::string_view key;
  unsigned uses = 0;
  // The value; empty where the run has none.
  std::string (*value)(const Run& run) = nullptr;
  // Values by their keys within the group.
  Settings (*values)(const Run& run) = nullptr;
  // A key of the report's configuration, which all of its runs have in common.
  std::string_view config_key = {};
  // What people call it: "batch 32 a device". Empty where there is nothing to say. Null where
  // the words of another row say it too, and for `values` and `config_key`, which value_words()
  // puts into words.
  std::string (*words)(const Run& run) = nullptr;
};

// All settings, in the order in which names and titles state them.
std::span<const Setting> setting_table();

// The values of a run that take part in any of `uses`. Values of the configuration are left out.
Settings settings_of(const Run& run, unsigned uses);
// The values of the report's configuration that take part in any of `uses`.
Settings config_settings(const Report& report, unsigned uses);
// Keys that both have, with different values.
std::vector<std::string> differing_keys(const Settings& a, const Settings& b);

// "overlap off" of "strategy_options/overlap", "lr 0.1" of "optimizer/lr", "residency device".
std::string value_words(std::string_view key, const std::string& value);

// "cpu (Imaginary 9000)"; the word alone where the note is empty.
std::string with_note(const std::string& word, const std::string& note);

// A setting in words, where it takes part in names; `key` is the same for all runs.
struct SettingWords {
  std::string key, words;
  bool of_strategy = false;  // compared with runs of the same strategy only
};
// What may tell a run from others, in the order of a name. Nothing without words.
std::vector<SettingWords> name_words(const Run& run);

// Settings that are known before a run is made, so that repetitions of one thing have equal keys.
inline Settings cell_key(const Run& run) { return settings_of(run, kCellUse); }

}  // namespace ddpbench::report
