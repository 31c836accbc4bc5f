// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/data/run_names.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

struct Detail {
  std::string key, text;
};

// What may tell a run from others of its strategy and number of devices, in the order of the name.
std::vector<Detail> details_of(const Run& run) {
  std::vector<Detail> details = {
      {"model", run.model},
      {"precision", run.precision},
      {"threads", counted(run.threads_per_device, "thread") + " a device"},
      {"batch", fmt::format("batch {}", run.per_device_batch_size)}};
  for (const auto& [name, value] : run.strategy_options) {
    details.push_back({"--" + name, fmt::format("{}={}", name, value)});
  }
  if (!run.injected.empty()) details.push_back({"injected", "injected " + run.injected});
  std::erase_if(details, [](const Detail& detail) { return detail.text.empty(); });
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
  for (Detail& detail : details_of(run)) {
    ++group.stated[detail.key];
    group.texts[detail.key].insert(std::move(detail.text));
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
  for (const Detail& detail : details_of(run)) {
    if (group.texts.at(detail.key).size() > 1 || group.stated.at(detail.key) < group.runs) {
      different.push_back(detail.text);
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
