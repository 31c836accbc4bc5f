// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Configuration files: where --config=NAME is found, and reading one as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddpbench::bench {

// NAME as a path, else <directory>/NAME and <directory>/NAME.json of each directory in order.
// Throws ConfigError that lists where it looked and the nearest name there is.
std::string find_config(const std::string& name, const std::vector<std::string>& directories);

// Names (without .json) of the configurations in these directories, sorted.
std::vector<std::string> config_names(const std::vector<std::string>& directories);

// Throws ConfigError as parse_json does (base/json.h), and for what is no object. A configuration
// has at most 1 MiB and 16 levels.
nlohmann::json read_config(const std::string& path);
// The same from text; `path` stands for the file in messages.
nlohmann::json parse_config(const std::string& text, const std::string& path);

// A nested object as JSON pointers ("/optimizer/lr") with their values. Values that are no object
// are leaves; so is an empty object. "$schema" and "comment" at the top, which are for people and
// editors, are left out.
std::vector<std::pair<std::string, nlohmann::json>> flatten(const nlohmann::json& object);

}  // namespace ddpbench::bench
