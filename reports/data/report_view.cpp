// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/report_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/text.h"

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

// "; different machines: a (x) / b (y)"; empty when all are the same.
std::string difference(const char* what, std::span<const RunRow> rows,
                       std::string (*describe)(const Report&)) {
  const std::vector<std::string> words = different_words(
      mapped(rows, [describe](const RunRow& row) { return describe(*row.report); }), {});
  return words.size() < 2 ? "" : fmt::format("; different {}: {}", what, fmt::join(words, " / "));
}

}  // namespace

std::vector<RunRow> all_runs(std::span<const ReportFile> files) {
  const bool whole = short_names_clash(files);
  std::vector<RunRow> rows;
  for (const ReportFile& file : files) {
    std::ranges::move(all_runs(file.report, whole ? file.name : last_part(file.name)),
                      std::back_inserter(rows));
  }
  return rows;
}

std::vector<RunRow> all_runs(const Report& report, const std::string& file) {
  return mapped(report.runs, [&](const Run& run) { return RunRow{&report, &run, file}; });
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

std::string title_words(std::span<const RunRow> rows, SettingUse use) {
  constexpr std::size_t kNamedValues = 3;
  const Run untold{.device = "unknown", .precision = "fp32", .scaling_mode = "weak"};  // by imports
  std::string text;
  for (const Setting& setting : setting_table()) {
    if ((setting.uses & use) == 0) continue;
    std::vector<std::string> words;
    for (const RunRow& row : rows) {
      const Run& run = *row.run;
      // A chart's subtitle names the CPU.
      const bool told = use == kChartSubtitleUse && setting.key == "device" &&
                        run.device_model == row.report->environment.cpu.model;
      words.push_back(told ? run.device : setting_words(setting, run));
      if (row.report->generator.is_import() && words.back() == setting_words(setting, untold))
        words.back().clear();
    }
    std::vector<std::string> values = different_words(words, setting.without);
    if (values.empty()) continue;
    if (values.size() > kNamedValues) {
      values[kNamedValues] = fmt::format("{} more", values.size() - kNamedValues);
      values.resize(kNamedValues + 1);
    }
    if (!text.empty()) text += setting.key == "dataset/name" ? " on " : ", ";
    text += joined(values, " / ");
  }
  return text;
}

std::string caption(std::span<const RunRow> rows) {
  return printable(fmt::format(
      "{}{}{}", title_words(rows, kTableTitleUse), difference("machines", rows, machine_words),
      difference("versions", rows, [](const Report& r) { return build_words(r.generator); })));
}

std::set<std::pair<std::string, std::string>> telling(std::span<const Told> all) {
  struct Stated {
    std::set<std::string> words;
    std::map<std::string, std::size_t> counts;  // by peers
    bool lack_tells = false;
  };
  std::map<std::pair<std::string, std::string>, Stated> places;
  std::map<std::string, std::size_t> peers;
  for (const Told& told : all) {
    ++peers[told.peers];
    for (const TellingWords& word : told.words) {
      Stated& stated = places[{word.scope, word.key}];
      stated.words.insert(word.words);
      ++stated.counts[word.scope.empty() ? "" : told.peers];
      stated.lack_tells = word.lack_tells;
    }
  }
  std::set<std::pair<std::string, std::string>> found;
  for (const auto& [place, stated] : places) {
    const bool some_lack = std::ranges::any_of(stated.counts, [&](const auto& count) {
      return count.second < (place.first.empty() ? all.size() : peers.at(count.first));
    });
    if (stated.words.size() > 1 || (stated.lack_tells && some_lack)) found.insert(place);
  }
  return found;
}

std::string name_of(const std::string& strategy, int world_size, int servers) {
  std::string name = fmt::format("{} on {}", strategy, counted(world_size, "device"));
  if (servers > 0) name += " and " + counted(servers, "server");
  return name;
}

RunNames::RunNames(std::span<const RunRow> rows) {
  std::vector<Told> all;
  for (const RunRow& row : rows) {
    const Run& run = *row.run;
    const std::string name = name_of(run.strategy, run.world_size, 0);
    if (run.repetition > 0) repeated_.insert(name);
    // A label tells its runs from those of others, which are told from all of the name.
    Told& told = all.emplace_back(Told{fmt::format("{} {}", name, run.label), {}});
    for (const SettingWords& setting : name_words(run)) {
      if (setting.key == "servers") continue;  // every name states it
      for (const std::string& scope : std::set<std::string>{name + " ", told.peers})
        told.words.push_back({setting.key, setting.words, scope, true});
    }
  }
  const auto different = telling(all);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Run& run = *rows[i].run;
    std::vector<std::string> words;
    if (!run.label.empty()) words.push_back(run.label);
    for (const TellingWords& word : all[i].words) {
      const bool own = word.scope == all[i].peers;
      if (own && different.contains({word.scope, word.key})) words.push_back(word.words);
    }
    const std::string& details = details_[&run] = joined(words, ", ");
    names_[&run] = with_note(name_of(run.strategy, run.world_size, run.servers), details);
  }
}

std::string RunNames::with_repetition(const Run& run) const {
  if (!repeated_.contains(name_of(run.strategy, run.world_size, 0))) return setting(run);
  return fmt::format("{}, repetition {}", setting(run), run.repetition + 1);
}

}  // namespace ddpbench::report
