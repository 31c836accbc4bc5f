// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/report_choice.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "reports/data/settings.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

using Names = std::vector<std::string>;

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

// Whether a path leads to the same file as `path`, or to a copy of it.
auto same_as(const std::string& path) {
  return [&path](const std::string& other) {
    constexpr InputFile kReport = {.what = "report ", .most_bytes = SIZE_MAX};
    std::error_code ignored;
    if (path == other || std::filesystem::equivalent(path, other, ignored)) return true;
    return is_file(path) && is_file(other) &&
           std::filesystem::file_size(path) == std::filesystem::file_size(other) &&
           read_file(path, kReport) == read_file(other, kReport);
  };
}

}  // namespace

const Criteria<report::Run> RunFilter::kCriteria = {{
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
}};

void RunFilter::define(CommandOptions& options) {
  criteria_.define(options);
  options.add("--where", "KEY=VALUE,...", &settings_,
              "Only runs with these settings (overlap=off, precision=fp32, ...)");
}

bool RunFilter::admits(const report::Run& run) const {
  return criteria_.admits(run) && std::ranges::all_of(settings_, [&](const std::string& wanted) {
           return has_setting(run, wanted);
         });
}

std::vector<report::RunRow> RunFilter::chosen(const std::string& command,
                                              std::span<const report::ReportFile> files) const {
  std::vector<report::RunRow> rows = report::all_runs(files);
  criteria_.check(command, mapped(rows, &report::RunRow::run));
  const Names known = settings_.empty() ? Names() : known_settings(rows);
  for (const std::string& wanted : settings_) {
    if (std::ranges::find(known, wanted) != known.end()) continue;
    throw ConfigError(fmt::format("{}: --where={}: no run has this setting.{}", command, wanted,
                                  suggestion(wanted, known)));
  }
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

std::vector<report::ReportFile> read_files(const std::string& command, const Names& paths) {
  if (std::ranges::count(paths, kStandardStream) > 1) {
    throw ConfigError(
        fmt::format("{}: '-' is given twice; standard input can be read only once", command));
  }
  return mapped(paths, [](const std::string& path) {
    return report::ReportFile{path, report::read_report(path)};
  });
}

std::vector<report::Report> reports_of(std::vector<report::ReportFile> files) {
  return mapped(files, [](report::ReportFile& file) { return std::move(file.report); });
}

void refuse_repeated(const std::string& command, const Names& candidate, const Names& base) {
  for (const Names* side : {&candidate, &base}) {
    for (auto path = side->begin(); path != side->end(); ++path) {
      if (std::find_if(side->begin(), path, same_as(*path)) == path) continue;
      throw ConfigError(
          fmt::format("{}: {} or a copy of it is given twice on one side; its runs would count as "
                      "repetitions that were never made",
                      command, *path));
    }
  }
  for (const std::string& path : candidate) {
    if (std::ranges::none_of(base, same_as(path))) continue;
    throw ConfigError(fmt::format(
        "{}: {} or a copy of it is given as new and as baseline; give one of another measurement",
        command, path));
  }
}

}  // namespace ddpbench::bench
