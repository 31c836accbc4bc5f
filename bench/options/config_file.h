// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Configuration files: finding the one that --config=NAME means, and reading it as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddpbench::bench {

// Takes NAME as a path (also of a pipe, or "-" for standard input), else <directory>/NAME and
// <directory>/NAME.json of each directory in order. Throws ConfigError that lists the places
// searched and the nearest existing name.
std::string find_config(const std::string& name, const std::vector<std::string>& directories);

// The names (without .json) of the configurations in these directories and their folders
// ("tutorial/mnist-notebook"), sorted. The folders "models" and "schema" have none.
std::vector<std::string> config_names(const std::vector<std::string>& directories);

// Throws ConfigError as parse_json does (base/json.h), and for JSON that is no object. A
// configuration has at most 1 MiB and 16 levels.
nlohmann::json read_config(const std::string& path);
// Reads the same from text; `path` stands for the file in messages.
nlohmann::json parse_config(const std::string& text, const std::string& path);

// Returns a nested object as JSON pointers ("/optimizer/lr") with their values. A value that is no
// object is a leaf, and so is an empty object. "$schema" and "comment" at the top are left out:
// they are for people and editors.
std::vector<std::pair<std::string, nlohmann::json>> flatten(const nlohmann::json& object);

}  // namespace ddpbench::bench
