// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts made from the option table: --help, docs/cli.md and the schema of configuration files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ddpbench::bench {

// What --help prints; lines of at most 80 columns.
std::string help_text();

// A line of help: `name` at the left, its explanation at the right and wrapped, below it when
// `name` is long.
std::string two_columns(std::string_view name, std::string_view help);

// What docs/cli.md holds.
std::string cli_document();

// What configs/schema/config.schema.json holds (JSON Schema draft-07). What spans several keys
// beyond "not both" (a divisible global batch, --save-model with several runs) is for the parser
// alone.
nlohmann::ordered_json config_schema();

}  // namespace ddpbench::bench
