// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest_name.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string stem(const std::string& name) {
  return name.ends_with(".json") ? name.substr(0, name.size() - 5) : name;
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

// Adds the names of the JSON files in `directory`, with `prefix` before each, and of its folders.
// A directory that is not there has none.
void add_names(const fs::path& directory, const std::string& prefix, std::set<std::string>& names) {
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(directory, absent)) {
    const fs::path& path = entry.path();
    const std::string folder = prefix + path.filename().string();
    const bool has_others = folder == "models" || folder == "schema";  // JSON of another kind
    // Links between folders might go round.
    if (entry.is_directory(absent) && !entry.is_symlink(absent) && !has_others) {
      add_names(path, folder + "/", names);
    } else if (path.extension() == ".json" && is_file(path)) {
      names.insert(prefix + path.stem().string());
    }
  }
}

}  // namespace

std::vector<std::string> config_names(const std::vector<std::string>& directories) {
  std::set<std::string> names;
  for (const std::string& directory : directories) add_names(directory, "", names);
  return {names.begin(), names.end()};
}

std::string find_config(const std::string& name, const std::vector<std::string>& directories) {
  if (is_file(name) || is_stream(name)) return name;
  std::vector<std::string> places = {name};
  for (const std::string& directory : directories) {
    for (const std::string& file : {name, name + ".json"}) {
      const fs::path candidate = fs::path(directory) / file;
      if (is_file(candidate)) return candidate.string();
      if (std::ranges::count(places, candidate.string()) == 0) places.push_back(candidate.string());
    }
  }
  if (is_folder(name))
    throw ConfigError(fmt::format("--config={0}: that is a directory; name a file in it, as {1}",
                                  name, (fs::path(name) / "NAME.json").string()));
  const auto names = config_names(directories);
  std::string suggested = suggestion(stem(name), names);
  if (suggested.empty()) suggested = suggestion(stem(fs::path(name).filename().string()), names);
  throw ConfigError(
      fmt::format("--config: there is no configuration '{}'.{} Looked at: {}. Known names: {}.",
                  name, suggested, fmt::join(places, ", "),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

json read_config(const std::string& path) {
  return parse_config(read_file(path, {.most_bytes = kLimits.most_bytes, .streams = true}),
                      input_name(path));
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

}  // namespace ddpbench::bench
