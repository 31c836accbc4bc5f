// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of options: from text to JSON, from JSON into the member of Options (checked), and back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

// Returns the text of a flag or variable as the JSON that a configuration file would hold. Text
// that does not fit the option's type becomes a JSON string, which set_value refuses.
nlohmann::json value_from_text(const OptionDefinition& definition, const std::string& text);

// Checks and assigns a value. `where` says where it stood ("--lr", "DDPBENCH_LR", "x.json: /lr").
// Throws ConfigError that says where, what was expected and what was found. Throws UnavailableError
// for a name with a meaning that is not in this build.
void set_value(Options& options, const OptionDefinition& definition, const nlohmann::json& value,
               const std::string& where);

// Returns the member as JSON, null when it is not set. REQUIRES: the definition has a member.
nlohmann::json get_value(const Options& options, const OptionDefinition& definition);

// Sets the member to its default. REQUIRES: it is no list of devices.
void reset_value(Options& options, const OptionDefinition& definition);

// Whether the option does something beside the values of the others (OptionDefinition::only_with).
bool is_heeded(const Options& options, const OptionDefinition& definition);

// Throws UnavailableError for a word that is known not to be here (ValueRule::absent).
void refuse_absent(const OptionDefinition& definition, const std::string& word,
                   const std::string& where);

// Says what is expected, for messages: "a whole number from 1", "one of pad, drop".
std::string expectation(const OptionDefinition& definition);

// The default as people read it: "0.01", "on", "whole epochs"; empty for --help and --version.
std::string default_text(const OptionDefinition& definition);

}  // namespace ddpbench::bench
