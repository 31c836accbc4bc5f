// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program with --device=cuda on two stand-ins for a GPU.
#pragma once

#include <gtest/gtest.h>

#include "tests/bench/program.h"

namespace ddpbench::test {

class CudaProgram : public testing::Test {
 protected:
  CudaProgram() {
    program.environment["STAND_IN_GPUS"] = "2";
    // Small enough for plain loops to evaluate it on 10,000 digits.
    program.write("tiny.json", R"({"name": "tiny", "input": [1, 28, 28], "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 3, "kernel": 5, "stride": 4},
      {"name": "relu1", "type": "relu"},
      {"name": "pool1", "type": "max_pool2d", "kernel": 2},
      {"name": "fc1", "type": "linear", "out_features": 16},
      {"name": "relu2", "type": "relu"},
      {"name": "fc2", "type": "linear", "out_features": 10}]})");
    nlohmann::json config = nlohmann::json::parse(small_config({.steps = 12}));
    config["model"] = "tiny.json";
    config["lr"] = 0.05;
    program.write("lenet.json", config.dump());
  }

  // The one run of a report.
  nlohmann::json run(const std::string& strategy, std::vector<std::string> more) {
    more.push_back("--device=cuda");
    more.push_back("--force");
    const auto result = program.run(small_run(strategy, more));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const nlohmann::json report = program.report();
    return report.at("runs").at(0);
  }

  Program program;
};

}  // namespace ddpbench::test
