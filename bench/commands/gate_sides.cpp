// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/gate_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

// Two measurements never agree in every moment and every step; a copy does.
bool same_content(const report::Report& a, const report::Report& b) {
  return a.started_at == b.started_at && a.runs.size() == b.runs.size() &&
         report::to_json(a) == report::to_json(b);
}

}  // namespace

void refuse_twice_on_one_side(const std::string& command, const std::vector<std::string>& paths) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!same_file(paths[i], paths[j])) continue;
      throw ConfigError(fmt::format(
          "{}: {} is given twice on one side; its runs would count as repetitions that were never "
          "made",
          command, paths[i]));
    }
  }
}

void refuse_same_on_both_sides(const std::string& command,
                               const std::vector<std::string>& candidate,
                               const std::vector<std::string>& base) {
  for (const std::string& path : candidate) {
    const auto same = [&path](const std::string& other) { return same_file(path, other); };
    if (std::ranges::none_of(base, same)) continue;
    throw ConfigError(
        fmt::format("{}: {} is given as new and as baseline; a report never differs from itself, "
                    "give one of another measurement",
                    command, path));
  }
}

void refuse_copies_on_both_sides(const std::string& command,
                                 const std::vector<std::string>& candidate_paths,
                                 const std::vector<report::Report>& candidate,
                                 const std::vector<std::string>& base_paths,
                                 const std::vector<report::Report>& base) {
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    for (std::size_t j = 0; j < base.size(); ++j) {
      if (!same_content(candidate[i], base[j])) continue;
      throw ConfigError(
          fmt::format("{}: {} is a copy of the baseline {}; a report never differs from itself, "
                      "give one of another measurement",
                      command, candidate_paths[i], base_paths[j]));
    }
  }
}

std::vector<report::Report> read_side(const std::string& command,
                                      const std::vector<std::string>& paths) {
  refuse_twice_on_one_side(command, paths);
  std::vector<report::Report> reports;
  for (const std::string& path : paths) reports.push_back(report::read_report(path));
  return reports;
}

}  // namespace ddpbench::bench
