// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of a network with running statistics: verified, sent or kept, reported, saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/nn/safetensors.h"
#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSteps = 6;

class NormalizedProgram : public testing::Test {
 protected:
  NormalizedProgram() { test::use_normalized_network(program, kSteps); }
  json run(const std::string& strategy, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), {"--force"});
    const auto result = program.run(small_run(strategy, arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return program.report()["runs"][0];
  }
  Program program;
};

struct Strategy {
  std::string name;
  std::vector<std::string> options;
};
class NormalizedRun : public NormalizedProgram, public testing::WithParamInterface<Strategy> {};

// Also with three devices, where averages are rounded.
TEST_P(NormalizedRun, ComputesWhatTheReferenceComputes) {
  for (const char* devices : {"--gpus=2", "--gpus=3"}) {
    std::vector<std::string> options = GetParam().options;
    options.insert(options.end(), {devices, "--verify-steps=20", "--lr=0.05"});
    const json verification = run(GetParam().name, options)["verification"];
    EXPECT_EQ(verification["status"], "passed");
    EXPECT_EQ(verification["steps"], 20);
    EXPECT_LT(verification["tolerance"], 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(, NormalizedRun,
                         testing::Values(Strategy{"dp", {}}, Strategy{"ddp", {}},
                                         Strategy{"ddp", {"--broadcast-buffers=off"}},
                                         Strategy{"ps", {}}),
                         [](const auto& chosen) {
                           const bool plain = chosen.param.options.empty();
                           return chosen.param.name + (plain ? "" : "KeepingItsOwn");
                         });

TEST_F(NormalizedProgram, ReportsWhatIsSent) {
  const json sent = run("ddp");
  EXPECT_EQ(sent["strategy_options"]["broadcast_buffers"], true);
  EXPECT_GT(sent["phases"]["replicate_s"], 0);
  EXPECT_GE(sent["phases"]["comm_s"], sent["phases"]["replicate_s"]);
  // Two layers of 6 channels: 64 bytes for each of their three tensors.
  EXPECT_EQ(sent["devices"][0]["memory"]["by_category_bytes"]["state"], 2 * 3 * 64);
  const json kept = run("ddp", {"--broadcast-buffers=off"});
  EXPECT_EQ(kept["strategy_options"]["broadcast_buffers"], false);
  EXPECT_FALSE(kept["phases"].contains("replicate_s"));
  EXPECT_FALSE(run("dp")["strategy_options"].contains("broadcast_buffers"));
}

// The weights of warm-up and verification are dropped, and so is their state.
TEST_F(NormalizedProgram, SavesAndLoadsItsState) {
  for (const char* strategy : {"single", "dp", "ddp", "ps"}) {
    run(strategy, {"--save-model=m.safetensors"});
    const auto tensors = nn::read_safetensors(program.path("m.safetensors"));
    int counts = 0;
    for (const nn::NamedTensor& tensor : tensors) {
      if (tensor.type != DataType::int64) continue;
      EXPECT_THAT(tensor.integers, ElementsAre(kSteps)) << strategy << ' ' << tensor.name;
      ++counts;
    }
    EXPECT_EQ(counts, 2) << strategy;
    run(strategy, {"--load-model=m.safetensors", "--save-model=n.safetensors"});
    for (const nn::NamedTensor& tensor : nn::read_safetensors(program.path("n.safetensors"))) {
      if (tensor.type == DataType::int64) {
        EXPECT_THAT(tensor.integers, ElementsAre(2 * kSteps)) << strategy;
      }
    }
  }
}

TEST_F(NormalizedProgram, RefusesAFileWithoutTheState) {
  run("single", {"--save-model=m.safetensors"});
  auto tensors = nn::read_safetensors(program.path("m.safetensors"));
  std::erase_if(tensors, [](const auto& tensor) { return tensor.name == "norm2.running_var"; });
  nn::write_safetensors(program.path("m.safetensors"), tensors, true);
  const auto result = program.run(small_run("single", {"--load-model=m.safetensors", "--force"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr(": 1 missing (\"norm2.running_var\")"));
}

TEST_F(NormalizedProgram, LoadsAnOlderFileWithoutCountsOfBatchesAndSaysSo) {
  run("single", {"--save-model=m.safetensors"});
  auto tensors = nn::read_safetensors(program.path("m.safetensors"));
  std::erase_if(tensors, [](const auto& tensor) { return tensor.type == DataType::int64; });
  nn::write_safetensors(program.path("old.safetensors"), tensors, true);
  const auto result = program.run(
      small_run("ddp", {"--load-model=old.safetensors", "--save-model=n.safetensors", "--force"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("old.safetensors has no num_batches_tracked of 2 batch norms; taken as 0"));
  for (const nn::NamedTensor& tensor : nn::read_safetensors(program.path("n.safetensors"))) {
    if (tensor.type == DataType::int64) {
      EXPECT_THAT(tensor.integers, ElementsAre(kSteps)) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace ddpbench::bench
