// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch loads our weights and computes our outputs. Skips where PyTorch is not installed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;

// The distribution's interpreter, which finds the distribution's PyTorch, else the path's.
std::string python() { return fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3"; }

TEST(PyTorch, ComputesOurLogitsFromOurFile) {
  constexpr int kNoTorch = 77;
  const fs::path folder = fs::temp_directory_path() / "ddpbench_nn_pytorch";
  fs::remove_all(folder);
  fs::create_directories(folder);
  TestGraph test(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  write_safetensors((folder / "weights.safetensors").string(), export_weights(test.graph()), false);
  const std::vector<float> logits = test.forward();
  const auto samples = std::vector<float>(test.input(), test.input() + 16 * 784);
  write_safetensors((folder / "batch.safetensors").string(),
                    {{"input", {16, 1, 28, 28}, samples}, {"logits", {16, 10}, logits}}, false);
  const std::string script = std::string(DDPBENCH_SOURCE_DIR) + "/tests/nn/check_safetensors.py";
  const int status =
      std::system(fmt::format("\"{}\" \"{}\" \"{}\"", python(), script, folder.string()).c_str());
  fs::remove_all(folder);
  ASSERT_TRUE(WIFEXITED(status)) << python() << " was ended by a signal";
  if (WEXITSTATUS(status) == kNoTorch) {
    GTEST_SKIP() << python() << " has no torch (Debian: python3-torch)";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace ddpbench::nn
