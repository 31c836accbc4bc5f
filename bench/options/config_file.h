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

// Throws ConfigError that names the file and, for what is not JSON, line and column; for a key that
// is there twice, the key (JSON itself would silently take the last); for what is larger (1 MiB) or
// deeper (16 levels) than any configuration.
nlohmann::json read_config(const std::string& path);
// The same from text; `path` stands for the file in messages.
nlohmann::json parse_config(const std::string& text, const std::string& path);

// A nested object as JSON pointers ("/optimizer/lr") with their values. Values that are no object
// are leaves; so is an empty object. "$schema" and "comment" at the top, which are for people and
// editors, are left out.
std::vector<std::pair<std::string, nlohmann::json>> flatten(const nlohmann::json& object);

}  // namespace ddpbench::bench
