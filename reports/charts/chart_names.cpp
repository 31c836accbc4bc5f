// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "reports/data/settings.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kNamedValues =
    3;  // of a setting, that a title names; further ones are counted

std::string hardware(const Environment& environment) {
  const std::string model = environment.cpu.model.empty() ? "unknown CPU" : environment.cpu.model;
  std::string text = fmt::format("{}, {}", model, counted(environment.cpu.cores, "core"));
  for (const GpuInfo& gpu : environment.gpus) text += ", " + gpu.name;
  return text;
}

// The words of a setting in a chart. The subtitle already names the CPU model of the machine.
std::string words_of(const Setting& setting, const ChartRun& run) {
  const bool known_model = run.run->device_model == run.report->environment.cpu.model;
  return setting.key == "device" && known_model ? run.run->device : setting.words(*run.run);
}

// "cap 0.5" for bucket_cap_mb=0.5, as legends and panels are narrow.
std::string brief_words(const std::string& key, const std::string& value) {
  if (key == "strategy_options/bucket_cap_mb") return "cap " + value;
  if (key == "strategy_options/first_bucket_mb") return "first " + value;
  return value_words(key, value);
}

// The words that may tell one run from others, in the order of a name. Caches the configuration of
// each report: parsing it for each run would be slow.
class RunWords {
 public:
  std::vector<SettingWords> of(const ChartRun& run) {
    std::vector<SettingWords> words;
    for (const bool of_strategy : {true, false}) {
      if (!of_strategy) {
        words.push_back({"machine", chart_machine(*run.report)});
        words.push_back({"build", chart_build(*run.report)});
      }
      for (const SettingWords& setting : name_words(*run.run)) {
        if (setting.of_strategy == of_strategy) words.push_back(in_chart(setting, run));
      }
    }
    for (const auto& [key, value] : config_of(*run.report)) {
      words.push_back({key, value_words(key, value)});
    }
    return words;
  }

 private:
  static SettingWords in_chart(SettingWords setting, const ChartRun& run) {
    const auto& options = run.run->strategy_options;
    const auto option = options.find(setting.key.substr(setting.key.find('/') + 1));
    if (setting.key.starts_with("strategy_options/") && option != options.end()) {
      setting.words = brief_words(setting.key, option->second);
    }
    for (const Setting& row : setting_table()) {
      if (row.key == setting.key && row.words != nullptr) setting.words = words_of(row, run);
    }
    return setting;
  }

  const Settings& config_of(const Report& report) {
    const auto [place, added] = configs_.try_emplace(&report);
    if (added) place->second = config_settings(report, kNameUse);
    return place->second;
  }

  std::map<const Report*, Settings> configs_;
};

// "mnist (files) / cifar10 (files)": each different value once, at most three, then "N more".
std::string each_once(std::span<const ChartRun> runs, const Setting& setting) {
  std::vector<std::string> words;
  for (const ChartRun& run : runs) words.push_back(words_of(setting, run));
  const std::vector<std::string> values = different_words(words, setting.without);
  const std::size_t named = std::min(values.size(), kNamedValues);
  std::string text = fmt::format("{}", fmt::join(std::span(values).first(named), " / "));
  if (values.size() > named) text += fmt::format(" / {} more", values.size() - named);
  return text;
}

// Strategy and number of devices.
using PeerKey = std::pair<std::string, int>;

// The different words of one setting, numbered in the order of first appearance.
class Texts {
 public:
  void add(const std::string& text, const PeerKey& peers) {
    numbers_.try_emplace(text, numbers_.size());
    ++counts_[peers];
  }
  bool differ() const { return numbers_.size() > 1; }
  // Whether some of the runs have no words. `runs`: how many there are of each kind. On another
  // number of devices there may be nothing to choose, so runs are compared with their peers.
  bool lack_some(const std::map<PeerKey, std::size_t>& runs) const {
    return std::ranges::any_of(
        counts_, [&runs](const auto& count) { return count.second < runs.at(count.first); });
  }
  bool lack_any(std::size_t runs) const {
    std::size_t stated = 0;
    for (const auto& [peers, count] : counts_) stated += count;
    return stated < runs;
  }
  std::size_t number_of(const std::string& text) const { return numbers_.at(text); }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::map<PeerKey, std::size_t> counts_;
};

// The settings that have the bit `use`, in words: "simple_cnn on mnist (files), weak scaling".
std::string title_of(std::span<const ChartRun> runs, SettingUse use) {
  std::string text;
  for (const Setting& setting : setting_table()) {
    if ((setting.uses & use) == 0) continue;
    const std::string words = each_once(runs, setting);
    if (words.empty()) continue;
    if (!text.empty()) text += setting.key == "dataset/name" ? " on " : ", ";
    text += words;
  }
  return text;
}

}  // namespace

std::string chart_machine(const Report& report) {
  const Environment& environment = report.environment;
  return fmt::format("{} ({})", hardware(environment), fmt::join(environment.hosts, ", "));
}

std::string chart_build(const Report& report) {
  const Generator& generator = report.generator;
  const std::string program = generator.name == "ddpbench" ? "" : generator.name + " ";
  if (!generator.git_commit) return fmt::format("{}version {}", program, generator.version);
  // "+": the sources have local changes. "?": that is not known.
  const char* changes = !generator.git_dirty ? "?" : *generator.git_dirty ? "+" : "";
  return fmt::format("{}version {} {}{}", program, generator.version,
                     generator.git_commit->substr(0, 8), changes);
}

std::string machine_letter(std::size_t index) {
  const std::string first(1, static_cast<char>('A' + index % 26));
  return index < 26 ? first : first + std::to_string(index / 26);
}

std::string machines_text(std::span<const Report* const> reports) {
  std::vector<std::string> machines;
  for (const Report* report : reports) {
    std::string name = chart_machine(*report);
    if (std::ranges::count(machines, name) == 0) machines.push_back(std::move(name));
  }
  if (machines.size() == 1) return hardware(reports.front()->environment);
  std::string text = "different machines";
  for (std::size_t i = 0; i < std::min(machines.size(), kNamedValues); ++i) {
    text += fmt::format("{} {}: {}", i == 0 ? ":" : ";", machine_letter(i), machines[i]);
  }
  if (machines.size() > kNamedValues) {
    text += fmt::format("; {} more", machines.size() - kNamedValues);
  }
  return text;
}

std::vector<std::string> series_names(std::span<const ChartRun> runs) {
  // Settings of a strategy are compared among its runs, the others among all runs.
  using Scope = std::pair<std::string, std::string>;  // strategy or nothing; key
  const auto scope_of = [](const ChartRun& run, const SettingWords& setting) {
    return Scope{setting.of_strategy ? run.run->strategy : std::string(), setting.key};
  };
  RunWords words;
  std::vector<std::vector<SettingWords>> said;
  std::map<Scope, Texts> texts;
  std::map<PeerKey, std::size_t> counts;
  for (const ChartRun& run : runs) {
    const PeerKey peers = {run.run->strategy, run.run->world_size};
    ++counts[peers];
    said.push_back(words.of(run));
    for (const SettingWords& setting : said.back()) {
      texts[scope_of(run, setting)].add(setting.words, peers);
    }
  }
  std::set<Scope> different;
  for (const auto& [scope, all] : texts) {
    const auto& [strategy, key] = scope;
    const bool lacking = is_usual_without(key) &&
                         (strategy.empty() ? all.lack_any(runs.size()) : all.lack_some(counts));
    if (all.differ() || lacking) different.insert(scope);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    names.push_back(runs[i].run->strategy);
    for (const SettingWords& setting : said[i]) {
      const Scope scope = scope_of(runs[i], setting);
      if (!different.contains(scope)) continue;
      // Machines have long names, so lines carry letters. The subtitle explains them.
      names.back() +=
          ", " + (setting.key == "machine"
                      ? "machine " + machine_letter(texts.at(scope).number_of(setting.words))
                      : setting.words);
    }
  }
  return names;
}

ChartCaption caption_of(std::span<const ChartRun> runs, const std::string& what) {
  ChartCaption caption;
  caption.title = what + ": " + title_of(runs, kChartTitleUse);
  std::vector<const Report*> reports;
  for (const ChartRun& run : runs) reports.push_back(run.report);
  caption.subtitle = machines_text(reports) + "; " + title_of(runs, kChartSubtitleUse);
  return caption;
}

}  // namespace ddpbench::report
