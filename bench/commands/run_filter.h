// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RunFilter: the options of show, chart and html that choose among the runs of reports.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "bench/options/command_options.h"
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
  std::array<std::vector<std::string>, kCriteria> wanted_;  // by criterion (run_filter.cpp)
  std::vector<std::string> settings_;                       // "overlap=off"
};

}  // namespace ddpbench::bench
