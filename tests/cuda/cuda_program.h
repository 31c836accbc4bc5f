// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program with --device=cuda, on two stand-ins for a GPU or on the first GPU of this machine.
// The CUDA module beside DDPBENCH_BINARY decides which.
#pragma once

#include <gtest/gtest.h>

#include "tests/bench/program.h"

namespace ddpbench::test {

class CudaProgram : public testing::Test {
 public:
  // Whether plain loops stand in for the GPU.
  static bool on_stand_in();

 protected:
  CudaProgram();
  // Skips with the reason where the program finds no GPU; stand-ins are always there.
  void SetUp() override;

  // Whether the GPU computes in this precision; a stand-in does in each.
  bool has_precision(const std::string& precision);

  // Runs the program and returns the one run of its report.
  nlohmann::json run(const std::string& strategy, std::vector<std::string> more);

  Program program;

 private:
  // Why the program would not train the test's network with this precision; empty when it would.
  std::string why_not(const std::string& precision);
};

// Writes lenet.json, a configuration so small that plain loops train it.
void write_small_configuration(Program& program);

// Expects a whole run, timed on CUDA devices, that computed what one device alone computes.
void expect_trained_on_cuda(const nlohmann::json& run);

// Each epoch's loss and accuracy, to all digits of the report.
std::vector<double> losses(const nlohmann::json& run);

}  // namespace ddpbench::test
