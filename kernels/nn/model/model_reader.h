// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a network from JSON, as in configs/models/*.json, and checks all of it. docs/networks.md
// describes the format, with blocks of layers (blocks.h):
//
//   {"name": "simple_cnn", "input": [1, 28, 28],
//    "layers": [
//      {"name": "conv1", "type": "conv2d", "inputs": ["input"], "out_channels": 32, "kernel": 3,
//      "padding": 1},
//      {"name": "relu1", "type": "relu", "inputs": ["conv1"]},
//      {"name": "pool1", "type": "max_pool2d", "inputs": ["relu1"], "kernel": 2},
//      {"name": "fc1", "type": "linear", "inputs": ["pool2"], "in_features": 3136, "out_features":
//      128}, ...],
//    "output": "fc2"}
#pragma once

#include <string>

#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// Parses and checks. `origin` is the file's name in messages. Throws ConfigError that names file,
// JSON pointer and the value or shapes: unknown type or key (with the nearest known one), duplicate
// name, missing input, cycle, wrong shape, loss that cannot be.
ModelSpec parse_model(const std::string& json_text, const std::string& origin);
ModelSpec load_model_file(const std::string& path);

}  // namespace ddpbench::nn
