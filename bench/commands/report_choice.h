// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which reports and runs a command reads: RunFilter, the options of show, chart and html that
// choose among the runs; and the report files of the two sides that the gate compares.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "bench/options/command_words.h"
#include "reports/data/report_view.h"

namespace ddpbench::bench {

class RunFilter {
 public:
  void define(CommandOptions& options);

  // The runs of `files` that the options choose, all when none was given. Throws ConfigError, which
  // begins with `command`, for a value that no run has.
  std::vector<report::RunRow> chosen(const std::string& command,
                                     std::span<const report::ReportFile> files) const;
  // Whether any of its options was given.
  bool is_given() const;
  // Removes all other runs from the reports. Throws ConfigError also when none is left.
  void apply(const std::string& command, std::vector<report::ReportFile>& files) const;

 private:
  bool admits(const report::Run& run) const;
  void check_values(const std::string& command, const std::vector<report::RunRow>& rows) const;

  static constexpr std::size_t kCriteria = 4;
  std::array<std::vector<std::string>, kCriteria> wanted_;  // by criterion (report_choice.cpp)
  std::vector<std::string> settings_;                       // "overlap=off"
};

std::vector<report::ReportFile> read_files(const std::vector<std::string>& paths);

// Throws ConfigError for a file that is given twice: its runs would pass for repetitions.
void refuse_twice_on_one_side(const std::string& command, const std::vector<std::string>& paths);

// Throws ConfigError for a file that is on both sides: such a comparison could not fail.
void refuse_same_on_both_sides(const std::string& command,
                               const std::vector<std::string>& candidate,
                               const std::vector<std::string>& base);

// The same for a copy: a report on one side whose content is that of one on the other. The reports
// are those of the paths, in their order.
void refuse_copies_on_both_sides(const std::string& command,
                                 const std::vector<std::string>& candidate_paths,
                                 const std::vector<report::Report>& candidate,
                                 const std::vector<std::string>& base_paths,
                                 const std::vector<report::Report>& base);

// All reports of one side, none of them twice.
std::vector<report::Report> read_side(const std::string& command,
                                      const std::vector<std::string>& paths);

}  // namespace ddpbench::bench
