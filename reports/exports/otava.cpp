// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"

namespace ddpbench::report {

std::string otava_metric(const std::string& name) {
  std::string metric;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) metric += c;
    if (!plain && !metric.empty() && metric.back() != '_') metric += '_';
  }
  while (metric.ends_with('_')) metric.pop_back();
  return metric;
}

std::string otava_csv(const History& history) {
  std::string text = "time,commit";
  std::set<std::string> taken;
  for (const HistoryLine& line : history.lines) {
    const std::string metric = otava_metric(line.name);
    std::string unique = metric;
    for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", metric, i);
    text += "," + unique;
  }
  text += '\n';
  for (std::size_t c = 0; c < history.commits.size(); ++c) {
    if (history.commits[c].started_at.empty()) {
      throw ConfigError(
          fmt::format("when {} was measured is not recorded, and Otava needs the time of each "
                      "commit; import it with --measured-at=TIME",
                      history.commits[c].name));
    }
    text += fmt::format("{},{}", csv_quoted(history.commits[c].started_at),
                        csv_quoted(history.commits[c].name));
    for (const HistoryLine& line : history.lines) {
      const auto point = std::ranges::find(line.points, c, &HistoryPoint::commit);
      text += "," + (point == line.points.end() ? "" : fmt::format("{}", 1e3 * point->step_s));
    }
    text += '\n';
  }
  return text;
}

}  // namespace ddpbench::report
