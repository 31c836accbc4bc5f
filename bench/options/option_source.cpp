// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "base/ranges.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRunsKey = "runs";
constexpr const char* kRunsPointer = "/runs";
constexpr std::size_t kMostEntries = 1000;
constexpr std::string_view kSuffix = ".json";  // of configurations

// "/optimizer/lr" -> "/optimizer"; "/lr" -> "".
std::string parent_of(const std::string& pointer) { return pointer.substr(0, pointer.rfind('/')); }

std::string leaf_of(const std::string& pointer) { return pointer.substr(pointer.rfind('/') + 1); }

// The keys that set it; `all`: also where files may not have it.
std::vector<std::string> keys_of(const OptionDefinition& definition, bool all) {
  if (all && !definition.is_key()) return {definition.canonical_key()};
  return definition.file_keys();
}

// Where keys stand: a file, and the object in it that has them ("/runs/2"; empty: the whole).
struct KeyPlace {
  const std::string& origin;
  std::string pointer = {};
  bool all_keys = false;

  bool is_entry() const { return !pointer.empty(); }
  std::string of(const std::string& key) const {
    return fmt::format("{}: {}{}", origin, pointer, key);
  }
};

std::vector<std::string> known_keys(const KeyPlace& place) {
  std::vector<std::string> keys;
  for (const OptionDefinition& definition : option_table()) {
    if (place.is_entry() && !definition.is_per_run()) continue;
    for (const std::string& key : keys_of(definition, place.all_keys)) keys.push_back(key);
  }
  if (!place.is_entry()) keys.emplace_back(kRunsPointer);
  return keys;
}

[[noreturn]] void refuse_key(const KeyPlace& place, const std::string& key, const json& value) {
  const std::vector<std::string> known = known_keys(place);
  const std::string where = place.of(key);
  for (const std::string& candidate : known) {
    if (parent_of(candidate) == key)
      throw ConfigError(fmt::format("{}: expected an object with keys such as \"{}\", got {}.",
                                    where, leaf_of(candidate), value.dump()));
    if (parent_of(key) == candidate)
      throw ConfigError(fmt::format("{}: expected a value, got an object.", place.of(candidate)));
  }
  const OptionDefinition* flag = find_flag(leaf_of(key));
  if (flag != nullptr && parent_of(key).empty() && !flag->is_key())
    throw ConfigError(
        fmt::format("{}: {} can only be given as a flag or variable.", where, flag->flag()));
  const auto near = nearest_name(key, known);
  throw ConfigError(
      fmt::format("{}: unknown key.{}", where,
                  near ? fmt::format(" Did you mean '{}{}'?", place.pointer, *near) : ""));
}

OptionSource source_of(const json& content, const KeyPlace& place) {
  OptionSource source;
  for (const auto& [key, value] : flatten(content)) {
    const auto definition =
        std::ranges::find_if(option_table(), [&, &wanted = key](const OptionDefinition& candidate) {
          return std::ranges::count(keys_of(candidate, place.all_keys), wanted) != 0;
        });
    if (definition == option_table().end()) refuse_key(place, key, value);
    if (place.is_entry() && !definition->is_per_run())
      throw ConfigError(fmt::format(
          "{}: it is the same for all runs of a report; give it beside \"runs\".", place.of(key)));
    source.add(*definition, words_of_json(*definition, value), place.of(key));
  }
  return source;
}

constexpr std::string_view kPrefix = "DDPBENCH_";

std::string without_prefix(const std::string& name) { return name.substr(kPrefix.size()); }

// Kubernetes gives every container such variables of a Service whose name begins with ddpbench.
bool is_of_service(const std::string& name) {
  const std::string own = name.starts_with(kPrefix) ? "_" + without_prefix(name) + "_" : "";
  return own.find("_SERVICE_") != std::string::npos || own.find("_PORT_") != std::string::npos;
}

// Compares without the prefix: all names share it, so it says nothing about which is near.
void refuse_unknown_variable(const std::string& name, const std::vector<std::string>& known) {
  if (!name.starts_with(kPrefix) || std::ranges::count(known, without_prefix(name)) != 0) return;
  const auto near = nearest_name(without_prefix(name), known);
  throw ConfigError(fmt::format("{}: unknown variable.{} Unset it if it is not needed.", name,
                                near ? fmt::format(" Did you mean '{}{}'?", kPrefix, *near) : ""));
}

using Pointer = nlohmann::ordered_json::json_pointer;

nlohmann::ordered_json whole_json(const Options& options) {
  nlohmann::ordered_json result;
  for (const OptionDefinition& definition : option_table()) {
    if (definition.applies_to(Command::comm) && !definition.applies_to(Command::run)) continue;
    const json value = get_value(options, definition);
    if (value.is_null() || !is_heeded(options, definition)) continue;
    result[Pointer(definition.canonical_key())] = value;
  }
  return result;
}

// What the entry has and `all`, of the options beside "runs", has not. What it leaves out has lost
// its meaning by what it has (a batch size by the other, an option of another optimizer).
nlohmann::ordered_json entry_json(const nlohmann::ordered_json& all, const Options& entry) {
  const nlohmann::ordered_json own = whole_json(entry);
  auto different = nlohmann::ordered_json::object();
  for (const OptionDefinition& definition : option_table()) {
    const Pointer key(definition.canonical_key());
    if (!definition.is_per_run() || !own.contains(key)) continue;
    if (all.contains(key) && all.at(key) == own.at(key)) continue;
    different[key] = own.at(key);
  }
  return different;
}

// A configuration has a few hundred bytes and nests two deep. Code that reads it may recurse.
constexpr JsonLimits kLimits{.most_bytes = kMiB, .deepest = 16};

using Leaves = std::vector<std::pair<std::string, json>>;

void append_leaves(const json& object, const json::json_pointer& parent, Leaves& leaves) {
  for (const auto& [key, value] : object.items()) {
    if (parent.empty() && (key == "$schema" || key == "comment")) continue;
    if (value.is_object() && !value.empty())
      append_leaves(value, parent / key, leaves);
    else
      leaves.emplace_back((parent / key).to_string(), value);
  }
}

using Layers = std::span<const OptionSource* const>;

// What the last layer that has the option gives, and its number; null and -1: none has it.
std::pair<const OptionSource::Given*, std::ptrdiff_t> last_given(const std::string& option,
                                                                 Layers layers) {
  for (std::ptrdiff_t i = std::ssize(layers); i-- > 0;) {
    const auto* const given = layers[static_cast<std::size_t>(i)]->find(option);
    if (given != nullptr) return {given, i};
  }
  return {nullptr, -1};
}

}  // namespace

void OptionSource::add(const OptionDefinition& definition, const Words& words,
                       const std::string& where) {
  const auto [at, inserted] = given_.emplace(definition.name, Given{words, where});
  if (!inserted)
    throw ConfigError(
        fmt::format("{} and {} set the same option; give only one.", at->second.where, where));
}

const OptionSource::Given* OptionSource::find(const std::string& option) const {
  const auto at = given_.find(option);
  return at == given_.end() ? nullptr : &at->second;
}

void OptionSource::apply(Options& options) const {
  const Given* batch = find("batch-size");
  const Given* global = find("global-batch-size");
  if (batch != nullptr && global != nullptr)
    throw ConfigError(
        fmt::format("{} and {} exclude each other: give the batch of each device (weak scaling) or "
                    "of all devices together (strong scaling).",
                    batch->where, global->where));
  for (const OptionDefinition& definition : option_table())
    if (const Given* given = find(definition.name))
      set_value(options, definition, given->words, given->where);
  if (batch != nullptr) options.global_batch_sizes.clear();
  if (global != nullptr) options.batch_sizes.clear();
}

OptionSource file_source(const json& content, const std::string& origin, bool all_keys) {
  return source_of(content, {.origin = origin, .all_keys = all_keys});
}

std::vector<RunEntry> take_run_entries(json& content, const std::string& origin) {
  const auto listed = content.find(kRunsKey);
  if (listed == content.end()) return {};
  const json list = std::move(*listed);
  content.erase(listed);
  const KeyPlace place{.origin = origin};
  if (!list.is_array() || list.empty())
    throw ConfigError(fmt::format(
        "{}: expected a list of objects, one or more, each with what its runs differ in, got {}.",
        place.of(kRunsPointer), list.is_array() ? "none" : list.type_name()));
  if (list.size() > kMostEntries)
    throw ConfigError(fmt::format("{}: {} entries; there may be {}.", place.of(kRunsPointer),
                                  list.size(), kMostEntries));
  std::vector<RunEntry> entries;
  for (const json& entry : list) {
    const KeyPlace own{.origin = origin,
                       .pointer = fmt::format("{}/{}", kRunsPointer, entries.size())};
    if (!entry.is_object())
      throw ConfigError(fmt::format("{}: expected an object, got {}.", own.of(""), entry.dump()));
    entries.push_back({source_of(entry, own), own.of("")});
  }
  return entries;
}

nlohmann::ordered_json to_json(const Options& options) {
  nlohmann::ordered_json result = whole_json(options);
  for (const Options& entry : options.runs) {
    result[kRunsKey].push_back(entry_json(result, entry));
  }
  return result;
}

Options options_from_json(const nlohmann::json& json) {
  nlohmann::json content = json;
  const std::vector<RunEntry> entries = take_run_entries(content, "options");
  Options options;
  file_source(content, "options", true).apply(options);
  std::vector<Options> runs;
  for (const RunEntry& entry : entries) {
    Options& run = runs.emplace_back(options);
    entry.source.apply(run);
    for (const OptionDefinition& definition : option_table()) {
      if (!is_heeded(run, definition)) reset_value(run, definition);
    }
  }
  options.runs = std::move(runs);
  return options;
}

OptionSource variable_source(const std::map<std::string, std::string>& variables, Command command) {
  OptionSource source;
  std::vector<std::string> known;
  for (const auto& names : {reserved_variables(), option_variables()})
    for (const std::string& name : names) known.push_back(without_prefix(name));
  for (const OptionDefinition& definition : option_table()) {
    if (!definition.is_variable() || !definition.applies_to(command)) continue;
    for (const std::string& name : definition.variables()) {
      const auto given = variables.find(name);
      if (given == variables.end() || given->second.empty()) continue;
      source.add(definition, words_of_texts(definition, {given->second}, name), name);
    }
  }
  for (const auto& [name, text] : variables)
    if (!is_of_service(name)) refuse_unknown_variable(name, known);
  return source;
}

std::string ignored_variables(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> names;
  for (const auto& [name, text] : variables)
    if (is_of_service(name)) names.push_back(name);
  if (names.empty()) return "";
  return fmt::format("ignored, as variables of a Kubernetes Service: {}", fmt::join(names, ", "));
}

std::vector<std::string> config_names(const std::vector<std::string>& directories) {
  std::set<std::string> names;
  for (const std::string& directory : directories) {
    std::error_code stop;  // a directory that is not there has none
    fs::recursive_directory_iterator entry(directory, stop);
    for (; !stop && entry != fs::recursive_directory_iterator(); entry.increment(stop)) {
      const std::string name = entry->path().lexically_relative(directory).string();
      if (name == "models" || name == "schema") entry.disable_recursion_pending();
      if (name.ends_with(kSuffix) && is_file(entry->path()))
        names.insert(name.substr(0, name.size() - kSuffix.size()));
    }
  }
  return {names.begin(), names.end()};
}

std::string find_config(const std::string& name, const std::vector<std::string>& directories) {
  if (is_file(name) || is_stream(name)) return name;
  for (const std::string& directory : directories)
    for (const std::string& file : {name, name + std::string(kSuffix)})
      if (const fs::path candidate = fs::path(directory) / file; is_file(candidate))
        return candidate.string();
  if (is_folder(name))
    throw ConfigError(fmt::format("--config={}: that is a directory; name a file in it", name));
  const auto names = config_names(directories);
  const std::string network = fs::path(name).stem();
  for (const std::string& directory : directories)
    if (is_file(fs::path(directory) / "models" / (network + std::string(kSuffix))))
      throw ConfigError(fmt::format("--config={0}: {1} is a network: --model={1}", name, network));
  std::string near = suggestion(fs::path(name).replace_extension().string(), names);
  if (near.empty()) near = suggestion(fs::path(name).stem().string(), names);
  throw ConfigError(fmt::format(
      "--config: there is no configuration '{}'.{} Looked here and in {}. Known names: {}.", name,
      near, fmt::join(directories, ", "), names.empty() ? "none" : joined(names, ", ")));
}

json read_config(const std::string& path) {
  json content = parse_config(read_file(path, {.most_bytes = kLimits.most_bytes, .streams = true}),
                              input_name(path));
  // A network's file lies beside the configuration that names it, wherever it is used.
  if (const auto model = content.find("model"); model != content.end() && model->is_string()) {
    const fs::path beside = fs::path(path).parent_path() / model->get<std::string>();
    if (is_file(beside)) *model = beside.string();
  }
  return content;
}

json parse_config(const std::string& text, const std::string& path) {
  json content = parse_json(text, path, kLimits);
  if (!content.is_object())
    throw ConfigError(
        fmt::format("{}: expected a JSON object, got {}.", path, content.type_name()));
  return content;
}

Leaves flatten(const json& object) {
  Leaves leaves;
  append_leaves(object, json::json_pointer(), leaves);
  return leaves;
}

void settle_conditions(Options& options, Layers layers) {
  for (const OptionDefinition& definition : option_table()) {
    if (is_heeded(options, definition)) continue;
    const std::string& other = definition.only_with.option;
    const json is = get_value(options, *find_flag(other));
    const std::string value = is.is_string() ? is.get<std::string>() : is.dump();
    const auto [given, layer] = last_given(definition.name, layers);
    const auto [decider, decided] = last_given(other, layers);
    reset_value(options, definition);
    if (given == nullptr || layer < decided) continue;
    const std::string decision = decider == nullptr
                                     ? fmt::format("--{}={}, the default", other, value)
                                     : fmt::format("{} ({})", value, decider->where);
    throw ConfigError(
        fmt::format("{}: it does nothing with {}; it is for --{}{}{}. Leave it out, or give that.",
                    given->where, decision, other, definition.only_with.values.empty() ? "" : "=",
                    fmt::join(definition.only_with.values, ", ")));
  }
}

void settle_data(Options& options, Layers layers) {
  const std::ptrdiff_t chosen = last_given("dataset", layers).second;
  if (last_given("dataset.mean", layers).second < chosen) options.dataset_mean = {};
  if (last_given("dataset.std", layers).second < chosen) options.dataset_std = {};
}

std::vector<std::string> set_optimizer_defaults(Options& options, Layers layers) {
  std::vector<std::string> notes;
  const auto set = [&](const std::string& option, double Options::*member, double own) {
    const auto [given, layer] = last_given(option, layers);
    if (given != nullptr) {
      const auto* const beside = layers[static_cast<std::size_t>(layer)]->find("optimizer");
      if (beside == nullptr || beside->words.front().text == options.optimizer) return;
      if (options.*member != own) {
        notes.push_back(fmt::format("--{}={}, the default of {}: {} is for {}", option, own,
                                    options.optimizer, given->where, beside->words.front().text));
      }
    }
    options.*member = own;
  };
  set("lr", &Options::lr, options.optimizer == "sgd" ? Options{}.lr : 1e-3);
  set("weight-decay", &Options::weight_decay, options.optimizer == "adamw" ? 0.01 : 0);
  return notes;
}

}  // namespace ddpbench::bench
