// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the JSON Schema of configuration files from the option table.
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "bench/options/option_table.h"
#include "bench/options/option_value.h"
#include "tests/bench/option_documents.h"

namespace ddpbench::bench {
namespace {

using Json = nlohmann::ordered_json;

// Bounds that are whole numbers get no fraction, so that they read as counts.
Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Json bounded(const char* type, const ValueRule& rule) {
  Json schema = {{"type", type}};
  if (std::isfinite(rule.minimum))
    schema[rule.above_minimum ? "exclusiveMinimum" : "minimum"] = number(rule.minimum);
  if (std::isfinite(rule.maximum))
    schema[rule.below_maximum ? "exclusiveMaximum" : "maximum"] = number(rule.maximum);
  return schema;
}

Json text_schema(const ValueRule& rule) {
  if (!rule.choices.empty()) {
    std::vector<std::string> words = rule.choices;
    if (rule.takes_all) words.emplace_back("all");
    return {{"enum", std::move(words)}};
  }
  return {{"type", "string"}, {"minLength", 1}};
}

// One entry, or a list of different ones.
Json one_or_list(const Json& entry, bool unique) {
  return {
      {"anyOf",
       {entry, {{"type", "array"}, {"items", entry}, {"minItems", 1}, {"uniqueItems", unique}}}}};
}

template <typename T>
Json entry_schema(const ValueRule& rule) {
  if constexpr (std::is_same_v<T, bool>) return {{"enum", {true, false, "on", "off"}}};
  if constexpr (std::is_integral_v<T>) return bounded("integer", rule);
  if constexpr (std::is_floating_point_v<T>) return bounded("number", rule);
  if constexpr (std::is_same_v<T, PerChannel>) return one_or_list(bounded("number", rule), false);
  if constexpr (std::is_same_v<T, Percent>) return {{"type", "string"}, {"pattern", "^[0-9.]+%?$"}};
  return text_schema(rule);
}

Json value_schema(const OptionDefinition& definition) {
  const ValueRule& rule = definition.rule;
  return std::visit(Overloaded{[&](NoMember) -> Json { return true; },
                               [&](GpuList) {
                                 Json schema = one_or_list(bounded("integer", rule), true);
                                 schema["anyOf"].push_back({{"const", "all"}});
                                 return schema;
                               },
                               [](const auto*) -> Json { return true; },
                               [&]<typename T>(T Options::*) {
                                 const Json entry = entry_schema<EntryOf<T>>(rule);
                                 constexpr bool unique = !std::is_same_v<EntryOf<T>, Injection>;
                                 return kIsList<T> ? one_or_list(entry, unique) : entry;
                               }},
                    definition.member);
}

Json empty_object() {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
}

// An object with the keys of all options, or of those that an entry of "runs" may have.
Json keys_schema(bool in_entry) {
  Json schema = empty_object();
  Json& properties = schema["properties"];
  properties["$schema"] = {{"type", "string"}};
  properties["comment"] = true;
  for (const OptionDefinition& definition : option_table()) {
    if (in_entry && !definition.is_per_run()) continue;
    for (const std::string& key : definition.file_keys()) {
      const Json::json_pointer pointer(key);
      const bool nested = !pointer.parent_pointer().empty();
      Json& parent = nested ? properties[pointer.parent_pointer().back()] : schema;
      if (parent.is_null()) parent = empty_object();
      Json value = value_schema(definition);
      value["description"] = definition.help;
      parent["properties"][pointer.back()] = value;
    }
  }
  schema["not"]["required"] = {"batch_size", "global_batch_size"};
  return schema;
}

}  // namespace

Json config_schema() {
  Json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"$id", "https://ddpbench.invalid/schema/config.schema.json"},
      {"title", "ddpbench configuration"},
      {"description", "Made from bench/options/option_definitions.cpp; a test compares both."}};
  schema.update(keys_schema(false));
  schema["properties"]["runs"] = {
      {"type", "array"},
      {"items", keys_schema(true)},
      {"minItems", 1},
      {"description",
       "Runs of one report, one after the other: each entry has what its runs differ in from the "
       "rest of the file (docs/cli.md, A list of runs)."}};
  return schema;
}

}  // namespace ddpbench::bench
