// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/run_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

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

RunNames::RunNames(std::span<const Run* const> runs) {
  std::vector<Told> all;
  for (const Run* run : runs) {
    all.push_back({name_of(run->strategy, run->world_size, 0), {}});
    for (SettingWords& setting : name_words(*run)) {
      if (setting.key == "servers") continue;  // every name states it
      all.back().words.push_back(
          {std::move(setting.key), std::move(setting.words), all.back().peers, true});
    }
    if (run->repetition > 0) repeated_.insert(all.back().peers);
  }
  const auto different = telling(all);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> words;
    for (const TellingWords& word : all[i].words) {
      if (different.contains({word.scope, word.key})) words.push_back(word.words);
    }
    std::string& name = names_[runs[i]];
    name = name_of(runs[i]->strategy, runs[i]->world_size, runs[i]->servers);
    if (!words.empty()) name += fmt::format(" ({})", fmt::join(words, ", "));
  }
}

RunNames::RunNames(const Report& report)
    : RunNames([&report] {
        std::vector<const Run*> runs;
        for (const Run& run : report.runs) runs.push_back(&run);
        return runs;
      }()) {}

std::string RunNames::with_repetition(const Run& run) const {
  if (!repeated_.contains(name_of(run.strategy, run.world_size, 0))) return setting(run);
  return fmt::format("{}, repetition {}", setting(run), run.repetition + 1);
}

}  // namespace ddpbench::report
