// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of the source tree that are made from the option table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/options/option_help.h"

namespace ddpbench::bench {

// Returns the beginning of docs/cli.md: all of it but what is written by hand, from "A list of
// runs" on.
std::string cli_document(const std::vector<CommandSummary>& commands);

// Returns the content of configs/schema/config.schema.json (JSON Schema draft-07). Of the rules
// across several keys it has that of the two batch sizes alone; the parser checks the others.
nlohmann::ordered_json config_schema();

}  // namespace ddpbench::bench
