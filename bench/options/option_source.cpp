// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "bench/options/config_file.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

// "/optimizer/lr" -> "/optimizer"; "/lr" -> "".
std::string parent_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }

std::string leaf_of(const std::string& pointer) { return pointer.substr(pointer.rfind('/') + 1); }

std::vector<std::string> keys_of(const OptionDefinition& definition, unsigned sources) {
  if ((definition.sources & kFile) == 0 && (definition.sources & sources) != 0)
    return {definition.canonical_key()};
  return definition.file_keys();
}

std::vector<std::string> known_keys(unsigned sources) {
  std::vector<std::string> keys;
  for (const OptionDefinition& definition : option_table())
    for (const std::string& key : keys_of(definition, sources)) keys.push_back(key);
  return keys;
}

// Returns the nearest key with the same parent, else the nearest of all keys.
std::string key_suggestion(const std::string& key, const std::vector<std::string>& known) {
  std::vector<std::string> siblings, others;
  for (const std::string& candidate : known) {
    (parent_of(candidate) == parent_of(key) ? siblings : others).push_back(leaf_of(candidate));
    if (parent_of(key).empty()) siblings.push_back(leaf_of(parent_of(candidate)));
  }
  if (const auto near = nearest_name(leaf_of(key), siblings))
    return fmt::format(" Did you mean '{}/{}'?", parent_of(key), *near);
  const auto near = nearest_name(leaf_of(key), others);
  for (const std::string& candidate : known)
    if (near && leaf_of(candidate) == *near) return fmt::format(" Did you mean '{}'?", candidate);
  return "";
}

[[noreturn]] void refuse_key(const std::string& key, const json& value, const std::string& origin,
                             const std::vector<std::string>& known) {
  const std::string where = fmt::format("{}: {}", origin, key);
  for (const std::string& candidate : known) {
    if (parent_of(candidate) == key)
      throw ConfigError(fmt::format("{}: expected an object with keys such as \"{}\", got {}.",
                                    where, leaf_of(candidate), value.dump()));
    if (parent_of(key) == candidate)
      throw ConfigError(fmt::format("{}: {}: expected a value, got an object.", origin, candidate));
  }
  const OptionDefinition* flag = find_flag(leaf_of(key));
  if (flag != nullptr && parent_of(key).empty() && (flag->sources & kFile) == 0)
    throw ConfigError(
        fmt::format("{}: {} can only be given as a flag or variable.", where, flag->flag()));
  throw ConfigError(fmt::format("{}: unknown key.{}", where, key_suggestion(key, known)));
}

constexpr std::string_view kPrefix = "DDPBENCH_";

std::string without_prefix(const std::string& name) { return name.substr(kPrefix.size()); }

// Compares without the prefix: all names share it, so it says nothing about which is near.
void refuse_unknown_variable(const std::string& name, const std::vector<std::string>& known) {
  if (!name.starts_with(kPrefix) || std::ranges::count(known, without_prefix(name)) != 0) return;
  const auto near = nearest_name(without_prefix(name), known);
  throw ConfigError(fmt::format("{}: unknown variable.{} Unset it if it is not needed.", name,
                                near ? fmt::format(" Did you mean '{}{}'?", kPrefix, *near) : ""));
}

}  // namespace

void OptionSource::add(const OptionDefinition& definition, Given given) {
  const auto [at, inserted] = given_.emplace(definition.name, given);
  if (!inserted)
    throw ConfigError(fmt::format("{} and {} set the same option; give only one.", at->second.where,
                                  given.where));
}

const OptionSource::Given* OptionSource::find(const std::string& option) const {
  const auto at = given_.find(option);
  return at == given_.end() ? nullptr : &at->second;
}

void OptionSource::apply(Options& options) const {
  const Given* batch = find("batch-size");
  const Given* global = find("global-batch-size");
  if (batch != nullptr && global != nullptr)
    throw ConfigError(fmt::format(
        "{} and {} exclude each other: give the batch of each device (weak scaling) or of all "
        "devices together (strong scaling).",
        batch->where, global->where));
  for (const OptionDefinition& definition : option_table())
    if (const Given* given = find(definition.name))
      set_value(options, definition, given->value, given->where);
  if (batch != nullptr) options.global_batch_sizes.clear();
  if (global != nullptr) options.batch_sizes.clear();
}

OptionSource file_source(const json& content, const std::string& origin, unsigned sources) {
  const auto known = known_keys(sources);
  OptionSource source;
  for (const auto& [key, value] : flatten(content)) {
    const auto definition =
        std::ranges::find_if(option_table(), [&, &wanted = key](const OptionDefinition& candidate) {
          return std::ranges::count(keys_of(candidate, sources), wanted) != 0;
        });
    if (definition == option_table().end()) refuse_key(key, value, origin, known);
    source.add(*definition, {value, fmt::format("{}: {}", origin, key)});
  }
  return source;
}

nlohmann::ordered_json to_json(const Options& options) {
  nlohmann::ordered_json result;
  for (const OptionDefinition& definition : option_table()) {
    const nlohmann::json value = get_value(options, definition);
    if (value.is_null() || !is_heeded(options, definition)) continue;
    result[nlohmann::ordered_json::json_pointer(definition.canonical_key())] = value;
  }
  return result;
}

Options options_from_json(const nlohmann::json& json) {
  Options options;
  file_source(json, "options", kAnywhere).apply(options);
  return options;
}

void refuse_unknown_variables(const std::map<std::string, std::string>& variables,
                              const std::vector<std::string>& others) {
  std::vector<std::string> known;
  for (const auto& names : {reserved_variables(), option_variables(), others}) {
    for (const std::string& name : names) known.push_back(without_prefix(name));
  }
  for (const auto& [name, text] : variables) refuse_unknown_variable(name, known);
}

OptionSource variable_source(const std::map<std::string, std::string>& variables, Command command,
                             const std::vector<std::string>& others) {
  OptionSource source;
  for (const OptionDefinition& definition : option_table()) {
    if ((definition.sources & kVariable) == 0) continue;
    const std::string name = definition.variable();
    const auto given = variables.find(name);
    if (given == variables.end() || given->second.empty() || !definition.applies_to(command))
      continue;
    source.add(definition, {value_from_text(definition, given->second), name});
  }
  refuse_unknown_variables(variables, others);
  return source;
}

}  // namespace ddpbench::bench
