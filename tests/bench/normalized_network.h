// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A small network with batch norm and a sum, for whole runs of the program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/program.h"

namespace ddpbench::test {

// Makes lenet.json a configuration with that network, of `steps` steps. `before_head`: layers in
// front of the last one, as JSON with a comma behind each.
inline void use_normalized_network(Program& program, int steps,
                                   const std::string& before_head = "") {
  program.write("normalized.json",
                R"({"name": "normalized", "input": [1, 28, 28], "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 6, "kernel": 3, "stride": 2, "bias": false},
      {"name": "norm1", "type": "batch_norm2d"},
      {"name": "relu1", "type": "relu"},
      {"name": "conv2", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1, "bias": false},
      {"name": "norm2", "type": "batch_norm2d"},
      {"name": "sum", "type": "add", "inputs": ["norm2", "relu1"]},
      {"name": "relu2", "type": "relu"},)" +
                    before_head + R"({"name": "head", "type": "linear", "out_features": 10}]})");
  nlohmann::json config = nlohmann::json::parse(small_config({.steps = steps}));
  config["model"] = program.path("normalized.json");
  program.write("lenet.json", config.dump());
}

}  // namespace ddpbench::test
