// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One entry of a model's "blocks", checked as far as that needs no values for its parameters.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ddpbench::nn {

struct Block {
  std::string name, pointer;  // "/blocks/stage"
  // An object of default values, null where a value must be given. nullptr: no parameters.
  const nlohmann::json* parameters = nullptr;
  std::vector<std::string> inputs;         // the names under which its layers refer to them
  const nlohmann::json* layers = nullptr;  // an array of objects with names
  std::string output;                      // name of one of these
};

using BlockTable = std::map<std::string, Block, std::less<>>;

// Reads "blocks" of `document`, which must outlive the table; empty where there are none. Throws
// ConfigError.
BlockTable read_blocks(const nlohmann::json& document, const std::string& origin);

// A layer of a block whose strings "$name" are replaced by these values, an object. `pointer` is
// that of the layer. Throws ConfigError for a parameter that the block does not have.
nlohmann::json with_values(const nlohmann::json& layer, const Block& block,
                           const nlohmann::json& values, const std::string& origin,
                           const std::string& pointer);

// The values for one placement of the block: those of `given`, an object with its place, else the
// defaults. Throws ConfigError for a value that is missing, not asked for, or of a wrong kind.
nlohmann::json values_for(const Block& block, const nlohmann::json& given,
                          const std::string& origin, const std::string& pointer);

}  // namespace ddpbench::nn
