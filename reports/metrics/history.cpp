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

}  // namespace

History history_of(std::span<const RunRow> rows) {
  History history;
  add_commits(rows, history);
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
    const auto commit = std::ranges::find(history.commits, commit_name(row), &HistoryCommit::name);
    const auto number = static_cast<std::size_t>(commit - history.commits.begin());
    settings[place->second].steps_s[number].push_back(run.step.time_s->median);
  }
  std::vector<const Run*> firsts;
  for (const Measured& setting : settings) firsts.push_back(setting.first);
  const RunNames names(firsts);
  for (const Measured& setting : settings) {
    HistoryLine& line = history.lines.emplace_back();
    line.name = names.setting(*setting.first);
    for (const auto& [commit, steps] : setting.steps_s)
      line.points.push_back({commit, steps.size(), median(steps), median_spread(steps)});
  }
  return history;
}

std::string order_words(const History& history) {
  return history.measured_order ? "Commits are in the order in which they were measured"
                                : "Commits are in the order in which their reports were given, as "
                                  "when they were measured is not recorded of all";
}

}  // namespace ddpbench::report
