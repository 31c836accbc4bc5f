// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// OptionSource: the option values given by a configuration file, the DDPBENCH_ variables or the
// flags. Sources are applied in order, and a later one wins.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

class OptionSource {
 public:
  struct Given {
    std::shared_ptr<const nlohmann::json> value;  // not null
    std::string where;                            // "--lr", "DDPBENCH_LR", "x.json: /optimizer/lr"
  };

  // `where` names the place in messages. Throws ConfigError when the source already has the option.
  void add(const OptionDefinition& definition, const nlohmann::json& value,
           const std::string& where);
  // Returns null when the source does not have it.
  const Given* find(const std::string& option) const;
  // Checks and assigns all values. A batch size replaces the other batch size of earlier sources.
  // Throws ConfigError when one source has both.
  void apply(Options& options) const;

 private:
  std::map<std::string, Given> given_;  // by OptionDefinition::name
};

// Reads a configuration file's content, or to_json's, without "runs" (take_run_entries). `origin`
// is its path. `sources` admits more keys than files may have (kAnywhere: to_json's "config").
// Throws ConfigError for unknown keys, naming the nearest, and for an object in place of a value or
// the reverse.
OptionSource file_source(const nlohmann::json& content, const std::string& origin,
                         unsigned sources = kFile);

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

// Reads the environment. `others`: variables of commands with options of their own, which this one
// ignores. Throws ConfigError for unknown DDPBENCH_ variables, naming the nearest.
OptionSource variable_source(const std::map<std::string, std::string>& variables, Command command,
                             const std::vector<std::string>& others = {});

// Throws ConfigError for a DDPBENCH_ variable that neither the option table nor `others` has,
// naming the nearest one.
void refuse_unknown_variables(const std::map<std::string, std::string>& variables,
                              const std::vector<std::string>& others);

// The resolved configuration as reports show it and ranks read it: the keys of a configuration file
// plus "config" (its path). Values that are not set are left out, as are those that have no effect
// beside the others. "runs" holds for each entry only the values that differ.
// options_from_json(to_json(o)) == o for parsed options.
nlohmann::ordered_json to_json(const Options& options);
Options options_from_json(const nlohmann::json& json);

}  // namespace ddpbench::bench
