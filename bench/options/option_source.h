// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A source of options: the values that a configuration file, the DDPBENCH_ variables or the flags
// give. Sources are applied in order, and a later one wins.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

class OptionSource {
 public:
  struct Given {
    nlohmann::json value;
    std::string where;  // "--lr", "DDPBENCH_LR", "x.json: /optimizer/lr"
  };

  // Throws ConfigError when the source has the option already.
  void add(const OptionDefinition& definition, Given given);
  // Null when the source does not have it.
  const Given* find(const std::string& option) const;
  // Checks and assigns all values. A batch size replaces the other one of earlier sources; both in
  // one source are a ConfigError.
  void apply(Options& options) const;

 private:
  std::map<std::string, Given> given_;  // by OptionDefinition::name
};

// From a configuration file's content or from to_json's. `origin` is its path. `sources` admits
// more than files may have (kAnywhere: to_json's "config"). Throws ConfigError for unknown keys,
// naming the nearest, and for objects where there should be values or the reverse.
OptionSource file_source(const nlohmann::json& content, const std::string& origin,
                         unsigned sources = kFile);

// From the environment; also refuses unknown DDPBENCH_ variables, naming the nearest.
OptionSource variable_source(const std::map<std::string, std::string>& variables, Command command);

// The resolved configuration as reports show it and workers read it, with the keys of a
// configuration file plus "config" (its path); what is not set is left out. from_json(to_json(o))
// == o.
nlohmann::ordered_json to_json(const Options& options);
Options options_from_json(const nlohmann::json& json);

}  // namespace ddpbench::bench
