// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program with --device=cuda: on two stand-ins for a GPU, or on the first GPU of this machine,
// as DDPBENCH_BINARY has the one module or the other beside it.
#pragma once

#include <gtest/gtest.h>

#include "tests/bench/program.h"

namespace ddpbench::test {

class CudaProgram : public testing::Test {
 protected:
  CudaProgram();
  // Skips, and says why, where the program finds no GPU.
  void SetUp() override;

  // Whether plain loops stand in for the GPU.
  static bool on_stand_in();

  // Whether the GPU computes in it.
  bool has_precision(const std::string& precision);

  // The one run of a report.
  nlohmann::json run(const std::string& strategy, std::vector<std::string> more);

  Program program;
};

// The run is whole, was timed on CUDA devices, and computed what one device alone does.
void expect_trained_on_cuda(const nlohmann::json& run);

// What the run trained, to all digits that the report has: each epoch's loss and accuracy.
std::vector<double> losses(const nlohmann::json& run);

}  // namespace ddpbench::test
