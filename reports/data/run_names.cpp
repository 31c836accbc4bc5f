// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/run_names.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "reports/data/settings.h"

namespace ddpbench::report {
namespace {

// The words that may tell a run from others of its strategy and number of devices, in the order of
// the name. The number of servers is left out, as every name states it.
std::vector<SettingWords> details_of(const Run& run) {
  std::vector<SettingWords> details = name_words(run);
  std::erase_if(details, [](const SettingWords& detail) { return detail.key == "servers"; });
  return details;
}

}  // namespace

RunNames::RunNames(std::span<const Run* const> runs) {
  for (const Run* run : runs) add(*run);
}

RunNames::RunNames(const Report& report) {
  for (const Run& run : report.runs) add(run);
}

void RunNames::add(const Run& run) {
  Group& group = groups_[{run.strategy, run.world_size}];
  ++group.runs;
  group.repeated = group.repeated || run.repetition > 0;
  for (SettingWords& detail : details_of(run)) {
    ++group.stated[detail.key];
    group.texts[detail.key].insert(std::move(detail.words));
  }
}

const RunNames::Group& RunNames::group_of(const Run& run) const {
  const auto found = groups_.find({run.strategy, run.world_size});
  ensure(found != groups_.end(), "no name for a run of {}", run.strategy);
  return found->second;
}

std::string name_of(const std::string& strategy, int world_size, int servers) {
  std::string name = fmt::format("{} on {}", strategy, counted(world_size, "device"));
  if (servers > 0) name += " and " + counted(servers, "server");
  return name;
}

std::string RunNames::setting(const Run& run) const {
  const Group& group = group_of(run);
  std::vector<std::string> different;
  for (const SettingWords& detail : details_of(run)) {
    if (group.texts.at(detail.key).size() > 1 || group.stated.at(detail.key) < group.runs) {
      different.push_back(detail.words);
    }
  }
  std::string name = name_of(run.strategy, run.world_size, run.servers);
  if (!different.empty()) name += fmt::format(" ({})", fmt::join(different, ", "));
  return name;
}

std::string RunNames::with_repetition(const Run& run) const {
  const std::string name = setting(run);
  return group_of(run).repeated ? fmt::format("{}, repetition {}", name, run.repetition + 1) : name;
}

}  // namespace ddpbench::report
