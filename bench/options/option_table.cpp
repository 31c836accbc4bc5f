// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <type_traits>

#include "base/ranges.h"

namespace ddpbench::bench {

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> OptionDefinition::flags() const {
  if (other_name.empty()) return {flag()};
  if (other_name.starts_with("--")) return {flag(), other_name};
  return {other_name, flag()};
}

bool OptionDefinition::is_list() const {
  return std::visit(Overloaded{[](NoMember) { return false; }, [](GpuList) { return true; },
                               []<typename T>(T Options::*) {
                                 return kIsList<T> && !std::is_same_v<EntryOf<T>, Injection>;
                               },
                               []<typename T>(T*) { return kIsList<T>; }},
                    member);
}

std::vector<std::string> OptionDefinition::variables() const {
  std::vector<std::string> all;
  for (const std::string& given : flags()) {
    if (!given.starts_with("--")) continue;
    std::string& variable = all.emplace_back("DDPBENCH_");
    for (const char c : with_underscores(given.substr(2)))
      variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return all;
}

std::string OptionDefinition::canonical_key() const {
  if (!json_key.empty()) return json_key;
  std::string key = "/" + with_underscores(name);
  std::ranges::replace(key, '.', '/');
  return key;
}

bool OptionDefinition::applies_to(Command command) const {
  const bool of_run = !has(kTuneAlone | kFitAlone | kCommAlone);
  switch (command) {
    case Command::tune:
      return has(kTuneAlone) || (of_run && !has(kNotOfTune));
    case Command::fit:
      return has(kPlannedByFit | kFitAlone);
    case Command::comm:
      return has(kOfComm | kCommAlone);
    case Command::data_fetch:
      return has(kOfFetch | kOfData);
    case Command::info:
    case Command::data_list:
      return has(kOfData);
    default:
      return of_run;
  }
}

std::vector<std::string> OptionDefinition::file_keys() const {
  if (!is_key()) return {};
  const std::string key = canonical_key(), short_key = "/" + with_underscores(name);
  // "/optimizer" is no key where "/optimizer/name" is one.
  if (!is_flag() || key == short_key || key.starts_with(short_key + "/")) return {key};
  return {short_key, key};
}

OptionDefinition with_hint(OptionDefinition row) {
  const std::vector<std::string>& choices = row.rule.choices;
  if (!row.hint.empty() || choices.empty()) return row;
  row.hint = fmt::format("{}{}{}", fmt::join(choices, "|"), row.rule.takes_all ? "|all" : "",
                         row.is_list() ? ",..." : "");
  return row;
}

Definitions in_group(const std::string& group, Definitions rows) {
  for (OptionDefinition& row : rows) {
    row.group = group;
    row = with_hint(std::move(row));
  }
  return rows;
}

const OptionDefinition* find_flag(const std::string& name) {
  const std::string wanted = with_dashes(name);
  for (const OptionDefinition& definition : option_table())
    if (definition.is_flag() && definition.name == wanted) return &definition;
  return nullptr;
}

std::vector<std::string> option_variables() {
  return mapped(option_table() | std::views::filter(&OptionDefinition::is_variable),
                [](const OptionDefinition& definition) { return definition.variables().front(); });
}

const std::vector<std::string>& reserved_variables() {
  static const std::vector<std::string> names = {
      "DDPBENCH_JOB_SECRET", "DDPBENCH_LAUNCHER", "DDPBENCH_SUPERVISOR",
      "DDPBENCH_RUN_FD",     "DDPBENCH_PRESET",   "DDPBENCH_SUPERVISOR_SECRET"};
  return names;
}

}  // namespace ddpbench::bench
