// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reports/data/run_names.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

bool counts(const Run& run) {
  return run.status == Status::ok && run.step.time_s && run.injected.empty() &&
         run.verification.status != "failed";
}

std::string commit_name(const RunRow& row) {
  constexpr std::size_t kShort = 12;
  const Generator& generator = row.report->generator;
  if (!generator.git_commit) return row.file.empty() ? "unknown commit" : row.file;
  const std::string commit = generator.git_commit->substr(0, kShort);
  return generator.git_dirty.value_or(false) ? commit + " with changes" : commit;
}

// Sets the commits and their order; returns the index of each report's commit.
std::map<const Report*, std::size_t> find_commits(std::span<const RunRow> rows, History& history) {
  std::vector<HistoryCommit>& commits = history.commits;
  std::map<const Report*, std::string> names;
  for (const RunRow& row : rows) {
    if (!names.emplace(row.report, commit_name(row)).second) continue;
    const std::string& name = names.at(row.report);
    const auto known = std::ranges::find(commits, name, &HistoryCommit::name);
    if (known == commits.end()) {
      commits.push_back({name, row.report->started_at});
    } else {
      known->started_at = std::min(known->started_at, row.report->started_at);
    }
  }
  history.measured_order = std::ranges::none_of(
      commits, [](const HistoryCommit& commit) { return commit.started_at.empty(); });
  if (history.measured_order) std::ranges::stable_sort(commits, {}, &HistoryCommit::started_at);
  std::map<const Report*, std::size_t> indices;
  for (const auto& [report, name] : names) {
    const auto found = std::ranges::find(commits, name, &HistoryCommit::name);
    indices[report] = static_cast<std::size_t>(found - commits.begin());
  }
  return indices;
}

// The repetitions of a setting by commit.
struct Measured {
  const Run* first = nullptr;
  std::map<std::size_t, std::vector<double>> steps_s;
};

Settings key_of(const Report& report, const Run& run) {
  Settings key = cell_key(run);
  key["device_model"] = run.device_model;
  key["train_samples"] = std::to_string(run.train_samples);
  key["test_samples"] = std::to_string(run.test_samples);
  key["hosts"] = fmt::format("{}", fmt::join(report.environment.hosts, "+"));
  return key;
}

HistoryLine line_of(const Measured& setting, const RunNames& names) {
  HistoryLine line{names.setting(*setting.first), {}};
  for (const auto& [commit, steps] : setting.steps_s) {
    line.points.push_back({commit, steps.size(), median(steps), median_spread(steps)});
  }
  return line;
}

}  // namespace

History history_of(std::span<const RunRow> rows) {
  History history;
  const std::map<const Report*, std::size_t> commits = find_commits(rows, history);
  std::vector<Measured> settings;
  std::map<Settings, std::size_t> places;
  for (const RunRow& row : rows) {
    const Run& run = *row.run;
    if (!counts(run)) {
      ++history.left_out;
      continue;
    }
    const auto [place, added] = places.try_emplace(key_of(*row.report, run), settings.size());
    if (added) settings.push_back({&run, {}});
    settings[place->second].steps_s[commits.at(row.report)].push_back(run.step.time_s->median);
  }
  std::vector<const Run*> firsts;
  for (const Measured& setting : settings) firsts.push_back(setting.first);
  const RunNames names(firsts);
  for (const Measured& setting : settings) history.lines.push_back(line_of(setting, names));
  return history;
}

std::string order_words(const History& history) {
  return history.measured_order ? "Commits are in the order in which they were measured"
                                : "Commits are in the order in which their reports were given, as "
                                  "when they were measured is not recorded of all";
}

}  // namespace ddpbench::report
