// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a network from JSON, as in configs/models/*.json, and checks all of it. docs/networks.md
// describes the format, with blocks of layers (layer_reader.h).
#pragma once

#include <cstdint>
#include <string>

#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// Parses and checks. `origin` is the file's name in messages. Throws ConfigError that names file,
// JSON pointer and the value or shapes: unknown type or key (with the nearest known one), duplicate
// name, missing input, cycle, wrong shape, loss that cannot be. Unless `side` is 0, the input's
// height and width are that in place of the file's.
ModelSpec parse_model(const std::string& json_text, const std::string& origin,
                      std::int64_t side = 0);
ModelSpec load_model_file(const std::string& path, std::int64_t side = 0);

}  // namespace ddpbench::nn
