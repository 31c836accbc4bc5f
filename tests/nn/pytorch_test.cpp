// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch loads our weights and computes our outputs. Skips where PyTorch is not installed.
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;

TEST(PyTorch, ComputesOurLogitsFromOurFile) {
  const fs::path folder = fs::temp_directory_path() / "ddpbench_nn_pytorch";
  fs::remove_all(folder);
  fs::create_directories(folder);
  TestGraph test(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  write_safetensors((folder / "weights.safetensors").string(), export_weights(test.graph()), false);
  const std::vector<float> logits = test.forward();
  const auto samples = std::vector<float>(test.input(), test.input() + 16 * 784);
  write_safetensors((folder / "batch.safetensors").string(),
                    {{"input", {16, 1, 28, 28}, samples}, {"logits", {16, 10}, logits}}, false);
  const int status = run_python("check_safetensors.py", folder.string());
  fs::remove_all(folder);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ddpbench::nn
