// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which reports and runs a command reads: RunFilter, the options of show, chart and html that
// choose among the runs; and the report files of the two sides that the gate compares.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "bench/options/command_words.h"
#include "reports/data/report_view.h"

namespace ddpbench::bench {

// Options that each name values of a criterion, of which a row must have one.
template <typename Row>
struct Criteria {
  struct Criterion {
    std::string flag, hint, help;
    std::string (*value)(const Row& row);
    std::vector<std::string> words = {};   // that it takes also where no row has them
    std::vector<std::string> wanted = {};  // what the user gives; empty: any
  };
  std::vector<Criterion> all;

  void define(CommandOptions& options) {
    for (Criterion& one : all) options.add(one.flag, one.hint, &one.wanted, one.help);
  }
  bool is_given() const {
    return !std::ranges::all_of(all, [](const Criterion& one) { return one.wanted.empty(); });
  }
  bool admits(const Row& row) const {
    return std::ranges::all_of(all, [&row](const Criterion& one) {
      return one.wanted.empty() || std::ranges::count(one.wanted, one.value(row)) > 0;
    });
  }
  // Throws ConfigError, which begins with `command`, for a value that none of the rows has.
  void check(const std::string& command, const std::vector<const Row*>& rows) const {
    for (const Criterion& one : all) {
      std::vector<std::string> known = one.words;
      for (const Row* row : rows) {
        const std::string value = one.value(*row);
        if (std::ranges::count(known, value) == 0) known.push_back(value);
      }
      for (const std::string& value : one.wanted) {
        check_word(command + ": " + one.flag, value, known);
      }
    }
  }
};

class RunFilter {
 public:
  void define(CommandOptions& options);

  // The runs of `files` that the options choose, all when none was given. Throws ConfigError, which
  // begins with `command`, for a value that no run has.
  std::vector<report::RunRow> chosen(const std::string& command,
                                     std::span<const report::ReportFile> files) const;
  // Whether any of its options was given.
  bool is_given() const { return !settings_.empty() || criteria_.is_given(); }
  // Removes all other runs from the reports. Throws ConfigError also when none is left.
  void apply(const std::string& command, std::vector<report::ReportFile>& files) const;

 private:
  bool admits(const report::Run& run) const;

  static const Criteria<report::Run> kCriteria;
  Criteria<report::Run> criteria_ = kCriteria;
  std::vector<std::string> settings_;  // "overlap=off"
};

// Throws ConfigError also when standard input ("-") is more than one of the paths.
std::vector<report::ReportFile> read_files(const std::string& command,
                                           const std::vector<std::string>& paths);
std::vector<report::Report> reports_of(std::vector<report::ReportFile> files);

// Throws ConfigError for a file that is given twice on one side, as its runs would pass for
// repetitions, and for one that is on both: such a comparison could not fail.
void refuse_repeated(const std::string& command, const std::vector<std::string>& candidate,
                     const std::vector<std::string>& base = {});

}  // namespace ddpbench::bench
