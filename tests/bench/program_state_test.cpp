// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of a network with running statistics: verified, sent or kept, reported, saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/nn/safetensors.h"
#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
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

// With three devices, where averages are rounded.
TEST_P(NormalizedRun, ComputesWhatTheReferenceComputes) {
  std::vector<std::string> options = GetParam().options;
  options.insert(options.end(), {"--gpus=3", "--verify-steps=20", "--lr=0.05"});
  const json verification = run(GetParam().name, options)["verification"];
  EXPECT_EQ(verification["status"], "passed");
  EXPECT_EQ(verification["steps"], 20);
  EXPECT_LT(verification["tolerance"], 0.05);
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

// As `torch.compile` names them and Transformers divides them; in the second file as doubles.
TEST_F(NormalizedProgram, LoadsTheFilesOfAnIndexAndSaysWhatItChanges) {
  run("single", {"--save-model=m.safetensors"});
  auto tensors = nn::read_safetensors(program.path("m.safetensors"));
  for (auto& tensor : tensors) tensor.name = "_orig_mod." + tensor.name;
  const nn::NamedTensor last = tensors.back();
  ASSERT_EQ(last.type, DataType::int64);
  std::iter_swap(tensors.begin(), tensors.end() - 1);
  const nn::NamedTensor first = tensors.back();  // a weight
  tensors.pop_back();
  nn::write_safetensors(program.path("a.safetensors"), tensors, true);
  json header;
  const std::vector<double> wide(first.values.begin(), first.values.end());
  header[first.name] = {{"dtype", "F64"},
                        {"shape", first.shape},
                        {"data_offsets", {0, wide.size() * sizeof(double)}}};
  const std::string text = header.dump();
  std::string file(8, '\0');
  file[0] = static_cast<char>(text.size());
  file += text + std::string(reinterpret_cast<const char*>(wide.data()), wide.size() * 8);
  program.write("b.safetensors", file);
  json index = {{"weight_map", {{first.name, "b.safetensors"}}}};
  for (const auto& tensor : tensors) index["weight_map"][tensor.name] = "a.safetensors";
  program.write("model.safetensors.index.json", index.dump());
  const auto result =
      program.run(small_run("ddp", {"--load-model=model.safetensors.index.json",
                                    "--save-model=n.safetensors", "--lr=1e-30", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("index.json begin with \"_orig_mod.\"; that is left out"),
                                HasSubstr("index.json holds fp64, converted to fp32")));
  const auto saved = nn::read_safetensors(program.path("n.safetensors"));
  EXPECT_EQ(saved[0].values, first.values);
  program.write("w.pth", std::string("PK\3\4\0\0\x08\x08\0\0\0\0", 12));
  const auto torch = program.run(small_run("single", {"--load-model=w.pth", "--force"}));
  EXPECT_EQ(torch.exit_code, 2);
  EXPECT_THAT(torch.err, AllOf(HasSubstr("--load-model: w.pth: expected safetensors, found a zip"),
                               HasSubstr("safetensors.torch.save_file")));
}

TEST_F(NormalizedProgram, LoadsAnOlderFileWithoutCountsOfBatches) {
  run("single", {"--save-model=m.safetensors"});
  auto tensors = nn::read_safetensors(program.path("m.safetensors"));
  std::erase_if(tensors, [](const auto& tensor) { return tensor.type == DataType::int64; });
  nn::write_safetensors(program.path("old.safetensors"), tensors, true);
  const auto result = program.run(
      small_run("ddp", {"--load-model=old.safetensors", "--save-model=n.safetensors", "--force"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const nn::NamedTensor& tensor : nn::read_safetensors(program.path("n.safetensors"))) {
    if (tensor.type == DataType::int64) {
      EXPECT_THAT(tensor.integers, ElementsAre(kSteps)) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace ddpbench::bench
