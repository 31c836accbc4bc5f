// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/ranking_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "reports/metrics/ranking.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostContests = 12;  // that are told; further ones are counted
constexpr std::size_t kMostLone = 6;       // that are named; further ones are counted

// "single on 1 device (global batch 64); ddp on 2 devices (global batch 256)".
std::string lone_settings(std::span<const Contest> all) {
  std::vector<std::string> names;
  for (const Contest& contest : all) {
    if (contest.lead != Lead::alone) continue;
    names.push_back(
        fmt::format("{} ({})", contest.standings[0].name, distinguishing_words(contest, all)));
  }
  const std::size_t count = names.size();
  if (count > kMostLone) {
    names.resize(kMostLone);
    names.push_back(fmt::format("{} more", count - kMostLone));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

bool on_one_machine(std::span<const RunRow> rows) {
  return std::ranges::all_of(rows, [&rows](const RunRow& row) {
    return row.report->environment.hosts == rows.front().report->environment.hosts;
  });
}

}  // namespace

std::string ranking_lines(std::span<const RunRow> rows, int width) {
  if (std::ranges::any_of(rows, [](const RunRow& row) { return row.report->tune.has_value(); })) {
    return {};
  }
  const std::vector<Contest> all = contests(rows, Scope::all_devices);
  if (all.empty() || (all.size() == 1 && all[0].lead == Lead::alone)) return {};
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  std::string text;
  const auto add = [&](const std::string& line) { text += wrap(printable(line), columns, 4); };
  const std::string unlike = unlike_words(rows);
  if (!unlike.empty()) {
    add(
        fmt::format("Rows differ in what they compute or run on ({}): only those that agree in it "
                    "compare.",
                    unlike));
  }
  const char* where = on_one_machine(rows) ? "On this machine, for" : "For";
  std::size_t told = 0, further = 0;
  for (const Contest& contest : all) {
    if (contest.lead == Lead::alone) continue;
    if (told == kMostContests) {
      ++further;
      continue;
    }
    ++told;
    add(fmt::format("{} {}: {}.", where, work_words(contest, all), recommendation(contest)));
  }
  if (further > 0) add(fmt::format("{} more of these are in the report's JSON and page.", further));
  const std::string lone = lone_settings(all);
  if (!lone.empty()) add(fmt::format("No other setting does the same work: {}.", lone));
  return text;
}

}  // namespace ddpbench::report
