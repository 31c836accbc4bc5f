// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/report_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/nearest_name.h"
#include "reports/data/settings.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

using Names = std::vector<std::string>;

struct Criterion {
  const char* flag;
  const char* hint;
  const char* help;
  std::string (*value)(const report::Run& run);
  Names words = {};  // that it takes also where no run has them
};

const Criterion kCriteriaTable[] = {
    {"--strategy", "NAME,...", "Only runs of these strategies",
     [](const report::Run& run) { return run.strategy; }},
    {"--gpus", "N,...", "Only runs on these numbers of devices",
     [](const report::Run& run) { return std::to_string(run.world_size); }},
    {"--batch-size", "N,...", "Only runs with these batch sizes (samples per device and step)",
     [](const report::Run& run) { return std::to_string(run.per_device_batch_size); }},
    {"--status",
     "WORD,...",
     "Only runs that are ok, diverged, failed, skipped or interrupted",
     [](const report::Run& run) { return std::string(to_string(run.status)); },
     {"ok", "diverged", "failed", "skipped", "interrupted"}},
};

// A setting by its whole key ("strategy_options/overlap") or by the last part of it ("overlap").
bool has_setting(const report::Run& run, const std::string& wanted) {
  const std::size_t equals = wanted.find('=');
  const std::string_view name = std::string_view(wanted).substr(0, equals);
  const std::string_view value = std::string_view(wanted).substr(equals + 1);
  return std::ranges::any_of(report::settings_of(run, ~0U), [&](const auto& setting) {
    const std::string_view key = setting.first;
    const bool named = key == name || (key.ends_with(name) && key.size() > name.size() &&
                                       key[key.size() - name.size() - 1] == '/');
    return named && setting.second == value;
  });
}

// "overlap=off", "precision=fp32", ... of these runs.
Names known_settings(const std::vector<report::RunRow>& rows) {
  std::set<std::string> known;
  for (const report::RunRow& row : rows) {
    for (const auto& [key, value] : report::settings_of(*row.run, ~0U)) {
      known.insert(fmt::format("{}={}", key, value));
      known.insert(fmt::format("{}={}", key.substr(key.rfind('/') + 1), value));
    }
  }
  return {known.begin(), known.end()};
}

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

void RunFilter::define(CommandOptions& options) {
  static_assert(std::size(kCriteriaTable) == kCriteria);
  for (std::size_t i = 0; i < kCriteria; ++i) {
    options.add(kCriteriaTable[i].flag, kCriteriaTable[i].hint, &wanted_[i],
                kCriteriaTable[i].help);
  }
  options.add("--where", "KEY=VALUE,...", &settings_,
              "Only runs with these settings (overlap=off, precision=fp32, ...)");
}

bool RunFilter::is_given() const {
  return !settings_.empty() ||
         std::ranges::any_of(wanted_, [](const Names& wanted) { return !wanted.empty(); });
}

bool RunFilter::admits(const report::Run& run) const {
  for (std::size_t i = 0; i < kCriteria; ++i) {
    const std::string value = kCriteriaTable[i].value(run);
    if (!wanted_[i].empty() && std::ranges::count(wanted_[i], value) == 0) return false;
  }
  return std::ranges::all_of(settings_,
                             [&](const std::string& wanted) { return has_setting(run, wanted); });
}

void RunFilter::check_values(const std::string& command,
                             const std::vector<report::RunRow>& rows) const {
  for (std::size_t i = 0; i < kCriteria; ++i) {
    const Criterion& criterion = kCriteriaTable[i];
    Names known = criterion.words;
    for (const report::RunRow& row : rows) {
      const std::string value = criterion.value(*row.run);
      if (std::ranges::find(known, value) == known.end()) known.push_back(value);
    }
    for (const std::string& value : wanted_[i])
      check_word(fmt::format("{}: {}", command, criterion.flag), value, known);
  }
  const Names known = settings_.empty() ? Names() : known_settings(rows);
  for (const std::string& wanted : settings_) {
    if (std::ranges::find(known, wanted) != known.end()) continue;
    throw ConfigError(fmt::format("{}: --where={}: no run has this setting.{}", command, wanted,
                                  suggestion(wanted, known)));
  }
}

std::vector<report::RunRow> RunFilter::chosen(const std::string& command,
                                              std::span<const report::ReportFile> files) const {
  std::vector<report::RunRow> rows = report::all_runs(files);
  check_values(command, rows);
  std::erase_if(rows, [&](const report::RunRow& row) { return !admits(*row.run); });
  return rows;
}

void RunFilter::apply(const std::string& command, std::vector<report::ReportFile>& files) const {
  if (chosen(command, files).empty() && !report::all_runs(files).empty()) {
    throw ConfigError(fmt::format("{}: no run is left by the options that choose runs", command));
  }
  for (report::ReportFile& file : files) {
    report::keep_runs(file.report, [&](const report::Run& run) { return admits(run); });
  }
}

std::vector<report::ReportFile> read_files(const std::vector<std::string>& paths) {
  std::vector<report::ReportFile> files;
  for (const std::string& path : paths) files.push_back({path, report::read_report(path)});
  return files;
}

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

[[noreturn]] static void refuse_pair(const std::string& command, const std::string& pair) {
  throw ConfigError(
      fmt::format("{}: {}; a report never differs from itself, give one of another measurement",
                  command, pair));
}

void refuse_same_on_both_sides(const std::string& command,
                               const std::vector<std::string>& candidate,
                               const std::vector<std::string>& base) {
  for (const std::string& path : candidate) {
    for (const std::string& other : base) {
      if (same_file(path, other))
        refuse_pair(command, fmt::format("{} is given as new and as baseline", path));
    }
  }
}

void refuse_copies_on_both_sides(const std::string& command,
                                 const std::vector<std::string>& candidate_paths,
                                 const std::vector<report::Report>& candidate,
                                 const std::vector<std::string>& base_paths,
                                 const std::vector<report::Report>& base) {
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    for (std::size_t j = 0; j < base.size(); ++j) {
      if (same_content(candidate[i], base[j]))
        refuse_pair(command, fmt::format("{} is a copy of the baseline {}", candidate_paths[i],
                                         base_paths[j]));
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
