// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of options: from the words of a flag, a variable or a configuration file into the member
// (checked), and from the member to what reports and documents show.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

// One value as it was given. JSON tells texts, numbers and truths apart; what is typed may be any.
struct Word {
  enum class Form : std::uint8_t { typed, text, number, truth, other };
  std::string text;
  Form form = Form::typed;
};

// The words of one option: one, or the entries of its list.
using Words = std::vector<Word>;

// The words in the texts of a flag or a variable. `texts` has several where the flag was repeated,
// which lists of faults and the commands' own lists allow. `where` names the place in messages
// ("--lr"). Throws ConfigError for a flag that may be given once.
Words words_of_texts(const OptionDefinition& definition, const std::vector<std::string>& texts,
                     const std::string& where);
Words words_of_json(const OptionDefinition& definition, const nlohmann::json& value);

// Checks and assigns the option's words. `where` says where they stood ("--lr", "DDPBENCH_LR",
// "x.json: /lr"). Throws ConfigError that says where, what was expected and what was found.
void set_value(Options& options, const OptionDefinition& definition, const Words& words,
               const std::string& where);

// Returns the member as JSON, null when it is not set. REQUIRES: the definition has a member.
nlohmann::json get_value(const Options& options, const OptionDefinition& definition);

// Sets the member to its default. REQUIRES: it is no list of devices.
void reset_value(Options& options, const OptionDefinition& definition);

// Whether the option does something beside the values of the others (OptionDefinition::only_with).
bool is_heeded(const Options& options, const OptionDefinition& definition);

// Says what is expected, for messages: "a whole number from 1", "one of pad, drop".
std::string expectation(const OptionDefinition& definition);

// The default as people read it: "0.01", "on", "whole epochs"; empty for --help and --version.
std::string default_text(const OptionDefinition& definition);

}  // namespace ddpbench::bench
