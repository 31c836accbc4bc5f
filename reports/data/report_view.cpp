// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/report_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "reports/data/report.h"
#include "reports/data/settings.h"

namespace ddpbench::report {
namespace {

std::string last_part(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Whether two different paths would have the same short name.
bool short_names_clash(std::span<const ReportFile> files) {
  std::set<std::string> paths, names;
  for (const ReportFile& file : files) {
    if (paths.insert(file.name).second && !names.insert(last_part(file.name)).second) return true;
  }
  return false;
}

void append_runs(const Report& report, const std::string& name, std::vector<RunRow>& rows) {
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    rows.push_back({&report, &report.runs[i], i, name, nullptr});
  }
}

// The different texts that `describe` gives for the rows (different_words()).
template <typename Describe>
std::vector<std::string> each_once(std::span<const RunRow> rows, Describe describe,
                                   std::string_view without = {}) {
  std::vector<std::string> words;
  for (const RunRow& row : rows) words.push_back(describe(row));
  return different_words(words, without);
}

std::string alternatives(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " / "));
}

std::string machine_words(const RunRow& row) {
  const Environment& environment = row.report->environment;
  std::vector<std::string> models = {environment.cpu.model};
  for (const GpuInfo& gpu : environment.gpus) models.push_back(gpu.name);
  return with_note(fmt::format("{}", fmt::join(environment.hosts, "+")),
                   fmt::format("{}", fmt::join(models, ", ")));
}

std::string version_words(const RunRow& row) {
  constexpr std::size_t kShortCommit = 12;
  const Generator& generator = row.report->generator;
  std::string commit = generator.git_commit.value_or("").substr(0, kShortCommit);
  if (const std::string_view changes = local_changes(generator); !changes.empty()) {
    commit += fmt::format(", {}", changes);
  }
  const std::string program = generator.name == "ddpbench" ? "" : generator.name + " ";
  return with_note(program + generator.version, commit);
}

// "; different machines: a (x) / b (y)"; empty when all are the same.
std::string difference(const char* what, const std::vector<std::string>& words) {
  return words.size() < 2 ? "" : fmt::format("; different {}: {}", what, alternatives(words));
}

}  // namespace

std::vector<RunRow> all_runs(std::span<const ReportFile> files) {
  const bool whole = short_names_clash(files);
  std::vector<RunRow> rows;
  for (const ReportFile& file : files) {
    append_runs(file.report, whole ? file.name : last_part(file.name), rows);
  }
  return rows;
}

std::vector<RunRow> all_runs(const Report& report) {
  std::vector<RunRow> rows;
  append_runs(report, "", rows);
  return rows;
}

void keep_runs(Report& report, const std::function<bool(const Run&)>& is_wanted) {
  std::vector<std::optional<std::size_t>> places;  // of each run among those that are kept
  std::vector<Run> kept;
  for (Run& run : report.runs) {
    const bool wanted = is_wanted(run);
    places.push_back(wanted ? std::optional(kept.size()) : std::nullopt);
    if (wanted) kept.push_back(std::move(run));
  }
  report.runs = std::move(kept);
  std::erase_if(report.cells, [&](const CellSummary& cell) {
    return std::ranges::any_of(cell.runs, [&](std::size_t run) { return !places.at(run); });
  });
  for (CellSummary& cell : report.cells) {
    for (std::size_t& run : cell.runs) run = *places[run];
  }
}

bool from_several_files(std::span<const RunRow> rows) {
  return std::ranges::any_of(
      rows, [&rows](const RunRow& row) { return row.report != rows.front().report; });
}

std::string caption(std::span<const RunRow> rows) {
  std::string text;
  for (const Setting& setting : setting_table()) {
    if ((setting.uses & kTableTitleUse) == 0) continue;
    const std::string words = alternatives(each_once(
        rows, [&setting](const RunRow& row) { return setting.words(*row.run); }, setting.without));
    if (words.empty()) continue;
    const std::string_view joint = setting.key == "dataset/name" ? " on " : ", ";
    text += fmt::format("{}{}", text.empty() ? "" : joint, words);
  }
  return printable(fmt::format("{}{}{}", text,
                               difference("machines", each_once(rows, machine_words)),
                               difference("versions", each_once(rows, version_words))));
}

}  // namespace ddpbench::report
