// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/history.h"

#include <algorithm>
#include <map>

#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

bool counts(const RunRow& row) {
  const Run& run = *row.run;
  return run.status == Status::ok && run.step.time_s && run.injected.empty() && !run.predicted &&
         run.verification.status != "failed";
}

std::string commit_name(const RunRow& row) {
  const std::string commit = commit_words(row.report->generator);
  // Imports do not tell of changes.
  if (!commit.empty()) return commit.substr(0, commit.find(','));
  return row.file.empty() ? "unknown commit" : row.file;
}

// The commits in their order.
void add_commits(std::span<const RunRow> rows, History& history) {
  std::vector<HistoryCommit>& commits = history.commits;
  for (const RunRow& row : rows) {
    const std::string& started_at = row.report->started_at;
    const auto known = std::ranges::find(commits, commit_name(row), &HistoryCommit::name);
    if (known == commits.end()) {
      commits.push_back({commit_name(row), started_at});
    } else {
      known->started_at = std::min(known->started_at, started_at);
    }
  }
  history.measured_order = std::ranges::none_of(
      commits, [](const HistoryCommit& commit) { return commit.started_at.empty(); });
  if (history.measured_order) std::ranges::stable_sort(commits, {}, &HistoryCommit::started_at);
}

Settings key_of(const RunRow& row) {
  const Run& run = *row.run;
  Settings key = cell_key(run);
  key["device_model"] = run.device_model;
  key["train_samples"] = std::to_string(run.train_samples);
  key["test_samples"] = std::to_string(run.test_samples);
  key["hosts"] = joined(row.report->environment.hosts, "+");
  return key;
}

}  // namespace

History history_of(std::span<const RunRow> rows) {
  History history;
  add_commits(rows, history);
  history.left_out = rows.size() - static_cast<std::size_t>(std::ranges::count_if(rows, counts));
  const auto settings = grouped(rows | std::views::filter(counts), key_of);
  const RunNames names(mapped(settings, [](const auto& one) { return one.second.front(); }));
  for (const auto& [key, runs] : settings) {
    std::map<std::size_t, std::vector<double>> steps_s;  // by commit
    for (const RunRow& row : runs) {
      const auto commit =
          std::ranges::find(history.commits, commit_name(row), &HistoryCommit::name);
      steps_s[static_cast<std::size_t>(commit - history.commits.begin())].push_back(
          row.run->step.time_s->median);
    }
    HistoryLine& line = history.lines.emplace_back();
    line.name = names.setting(*runs.front().run);
    for (const auto& [commit, steps] : steps_s) {
      line.points.push_back({commit, steps.size(), median(steps), median_spread(steps)});
    }
  }
  return history;
}

std::string order_words(const History& history) {
  return history.measured_order ? "Commits are in the order in which they were measured"
                                : "Commits are in the order in which their reports were given, as "
                                  "when they were measured is not recorded of all";
}

}  // namespace ddpbench::report
