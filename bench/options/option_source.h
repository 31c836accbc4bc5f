// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// OptionSource: the option values given by a configuration file, which is found and read here, the
// DDPBENCH_ variables or the flags. Sources are applied in order, and a later one wins.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/options/option_table.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {

class OptionSource {
 public:
  struct Given {
    Words words;
    std::string where;  // "--lr", "DDPBENCH_LR", "x.json: /optimizer/lr"
  };

  // `where` names the place in messages. Throws ConfigError when the source already has the option.
  void add(const OptionDefinition& definition, const Words& words, const std::string& where);
  // Returns null when the source does not have it.
  const Given* find(const std::string& option) const;
  // Checks and assigns all values. A batch size replaces the other batch size of earlier sources.
  // Throws ConfigError when one source has both.
  void apply(Options& options) const;

 private:
  std::map<std::string, Given> given_;  // by OptionDefinition::name
};

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

// Returns a nested object as JSON pointers ("/optimizer/lr") with their values. An empty object is
// a value. "$schema" and "comment" at the top, for editors and people, are left out.
std::vector<std::pair<std::string, nlohmann::json>> flatten(const nlohmann::json& object);

// Reads a configuration file's content, or to_json's, without "runs" (take_run_entries). `origin`
// is its path. `all_keys` admits those that files may not have (to_json's "config").
// Throws ConfigError for unknown keys, naming the nearest, and for an object in place of a value or
// the reverse.
OptionSource file_source(const nlohmann::json& content, const std::string& origin,
                         bool all_keys = false);

// An entry of a configuration's "runs": what the runs of one matrix differ in from the rest of the
// file, by the keys of options for which OptionDefinition::is_per_run.
struct RunEntry {
  OptionSource source;
  std::string where;  // "x.json: /runs/2"
};

// Takes "runs" out of a configuration's content and reads its entries. None: there is no such key.
// Throws ConfigError where it is no list of objects, or empty, and as file_source does, also for
// options that all runs of a report share.
std::vector<RunEntry> take_run_entries(nlohmann::json& content, const std::string& origin);

// Reads the environment. Throws ConfigError for unknown DDPBENCH_ variables, naming the nearest.
OptionSource variable_source(const std::map<std::string, std::string>& variables, Command command);
// A sentence on those that are no options but of a Kubernetes Service; empty: there are none.
std::string ignored_variables(const std::map<std::string, std::string>& variables);

// Resets each option that does nothing beside the value of another option. Throws ConfigError
// unless it was given in an earlier layer than that value: then it was meant for another value.
// `layers` are in the order file, variables, flags. REQUIRES: they were applied to `options`.
void settle_conditions(Options& options, std::span<const OptionSource* const> layers);

// Drops the mean and deviation that an earlier layer gave for another data set. `layers`: the same.
void settle_data(Options& options, std::span<const OptionSource* const> layers);

// Sets the options that no layer gives to the defaults of the optimizer, which are PyTorch's. Also
// replaces a learning rate or a weight decay that an earlier layer gave for another optimizer, and
// returns a line for people about each of these.
std::vector<std::string> set_optimizer_defaults(Options& options,
                                                std::span<const OptionSource* const> layers);

// The resolved configuration as reports show it and ranks read it: the keys of a configuration file
// plus "config" (its path), without values that are not set or have no effect. "runs" holds for
// each entry only the values that differ. options_from_json(to_json(o)) == o for parsed options.
nlohmann::ordered_json to_json(const Options& options);
Options options_from_json(const nlohmann::json& json);

}  // namespace ddpbench::bench
