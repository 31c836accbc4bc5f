// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of one or several reports side by side, for tables, charts and exports, and their names.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ranges.h"
#include "reports/data/report.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

struct ReportFile {
  std::string name;  // path as the user wrote it
  Report report;
};

struct RepeatedRuns;  // metrics/repetitions.h

// One run of a view, or the repetitions of one setting. Points into reports that outlive it.
struct RunRow {
  const Report* report = nullptr;
  const Run* run = nullptr;                // of repetitions the one with the median step
  std::string file;                        // name of the report; empty where there is no file
  const RepeatedRuns* repeated = nullptr;  // the repetitions that the row stands for; null: a run
  // Set by marked_rows() of table/table.h: the letters of the warnings that concern it, why its
  // speed-up says nothing, approximate_words() of an approximate row, and what tells the row from
  // others of its strategy.
  std::string marks = {}, doubt = {}, apart = {}, details = {};
  bool is_warned = false;  // whether a warning tells the doubt, too
  bool is_equal = false;   // whether it does the same work on one device as others
};

// The runs in the order of the files, then of their report. A file is named by the last part of its
// path if that tells all files apart, otherwise by its whole path.
std::vector<RunRow> all_runs(std::span<const ReportFile> files);
// `file`: their RunRow::file.
std::vector<RunRow> all_runs(const Report& report, const std::string& file = {});

// Removes the other runs, and summaries of repetitions of which a run is removed.
void keep_runs(Report& report, const std::function<bool(const Run&)>& is_wanted);

bool from_several_files(std::span<const RunRow> rows);

// The settings with the bit `use` in words, "simple_cnn on mnist (files), weak scaling": of each
// the different values, at most three, then "N more".
std::string title_words(std::span<const RunRow> rows, SettingUse use);

// What all runs share, in one line without control characters: network, data, devices, threads,
// precision. For several files it also says whether their machines or versions differ.
std::string caption(std::span<const RunRow> rows);

// ---- names, by what tells runs apart: those of different settings (settings.h) differ ----

// What may tell a thing from others, in words.
struct TellingWords {
  std::string key;          // of the setting
  std::string words;        // not empty
  std::string scope;        // compared with things that have words of this scope; empty: with all
  bool lack_tells = false;  // also where some of its peers (without a scope: of all) have none
};
struct Told {
  std::string peers;
  std::vector<TellingWords> words;
};
// The scopes and keys of the words that tell.
std::set<std::pair<std::string, std::string>> telling(std::span<const Told> all);

// "ps on 2 devices and 1 server".
std::string name_of(const std::string& strategy, int world_size, int servers);

class RunNames {
 public:
  // The names tell these runs apart.
  explicit RunNames(std::span<const RunRow> rows);
  explicit RunNames(const Report& report) : RunNames(all_runs(report)) {}

  // "ps on 2 devices and 1 server (batch 32 a device, overlap off)": the brackets hold the run's
  // label and the settings that differ among runs of the same strategy, number of devices and
  // label. REQUIRES: `run` was given to the constructor.
  const std::string& setting(const Run& run) const { return names_.at(&run); }
  // What it has in brackets, or nothing.
  const std::string& details(const Run& run) const { return details_.at(&run); }
  // The same with ", repetition 2" (counted from 1) where runs were repeated.
  std::string with_repetition(const Run& run) const;

 private:
  std::map<const Run*, std::string> names_, details_;
  std::set<std::string> repeated_;  // the strategies and numbers of devices of such runs
};

}  // namespace ddpbench::report
