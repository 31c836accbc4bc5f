// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of options: from text to JSON, from JSON into the member of Options (checked), and back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

// The text of a flag or variable as the JSON that a configuration file would hold. Text that does
// not fit the option's type becomes a JSON string, which set_value then refuses.
nlohmann::json value_from_text(const OptionDefinition& definition, const std::string& text);

// Checks and assigns. `where` says where the value stood ("--lr", "DDPBENCH_LR", "x.json: /lr").
// Throws ConfigError with where, what was expected and what was found; UnavailableError for a name
// that means something but is not in this build.
void set_value(Options& options, const OptionDefinition& definition, const nlohmann::json& value,
               const std::string& where);

// The member as JSON; null when it is not set. REQUIRES: the definition has a member.
nlohmann::json get_value(const Options& options, const OptionDefinition& definition);

// "a whole number from 1", "one of pad, drop": for messages.
std::string expectation(const OptionDefinition& definition);

// The default for people: "0.01", "on", "whole epochs"; empty for --help and --version.
std::string default_text(const OptionDefinition& definition);

}  // namespace ddpbench::bench
