// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks of single operations on the stand-in: each runs and counts its bytes correctly.
// Times are not tested.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace ddpbench {
namespace {

using nlohmann::json;

struct Outcome {
  int exit_code = -1;
  std::string err;
  json results;
};

// `before` stands before the command: environment variables.
Outcome run(const std::string& before, const std::string& module, const std::string& more) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("ddpbench-gpu-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string out = (folder / "out.json").string(), err = (folder / "err").string();
  const std::string command = fmt::format(
      "{} '{}' --device=cuda --module='{}' --size=2 --launches=2 --benchmark_out='{}' "
      "--benchmark_out_format=json {} >/dev/null 2>'{}'",
      before, OPS_BENCH, module, out, more, err);
  const int status = std::system(command.c_str());
  Outcome outcome{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  std::ifstream errors(err);
  outcome.err.assign(std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>());
  std::ifstream results(out);
  if (results && outcome.exit_code == 0) outcome.results = json::parse(results).at("benchmarks");
  std::filesystem::remove_all(folder);
  return outcome;
}

// By hand: the bytes that one sample, or element, moves, and those that a call moves beside them.
struct Bytes {
  double of_one, of_all = 0;
};

constexpr double kConv1 = 9 * 32 + 32, kConv2 = 9 * 32 * 64 + 64;  // parameters
constexpr double kFc1 = 3136 * 128 + 128, kFc2 = 128 * 10 + 10;

// The rows of operations whose tensors have elements of `size` bytes. Libraries read parameters in
// that type, own kernels in fp32. Gradients of parameters are fp32.
std::map<std::string, Bytes> operations(double size) {
  const double map1 = 784 * 32, map2 = 196 * 64;
  const double pool1 = (map1 + map1 / 4) * size + map1 / 4;
  const double pool2 = (map2 + map2 / 4) * size + map2 / 4;
  return {{"forward/conv1", {784 * 33 * size, 4 * kConv1}},
          {"backward/conv1", {784 * 33 * size, 4 * kConv1}},
          {"forward/conv2", {196 * 96 * size, size * kConv2}},
          {"backward/conv2", {196 * 128 * size, (4 + size) * kConv2}},
          {"forward/fc1", {3264 * size, size * kFc1}},
          {"backward/fc1", {2 * 3264 * size, (4 + size) * kFc1}},
          {"forward/fc2", {138 * size, size * kFc2}},
          {"backward/fc2", {266 * size, (4 + size) * kFc2}},
          {"forward/pool1", {pool1}},
          {"backward/pool1", {pool1}},
          {"forward/pool2", {pool2}},
          {"backward/pool2", {pool2}},
          {"forward/relu", {2 * map1 * size}},
          {"backward/relu", {3 * map1 * size}},
          {"forward/add", {3 * map1 * size}},
          {"backward/add", {3 * map1 * size}},
          {"forward/reorder", {2 * map1 * size}},
          {"backward/reorder", {2 * map1 * size}}};
}

// All benchmarks, by the beginnings of their names.
std::map<std::string, Bytes> all_cases() {
  std::map<std::string, Bytes> all = {{"copy/fp32/", {8}},
                                      {"optimizer/sgd/fp32/", {12}},
                                      {"optimizer/sgd_momentum/fp32/", {20}},
                                      {"optimizer/adam/fp32/", {28}},
                                      {"mean/inputs:2/fp32/", {12}},
                                      {"mean/inputs:8/fp32/", {36}},
                                      {"loss/classes:10/fp32/", {84}},
                                      {"loss/classes:1000/fp32/", {8004}},
                                      {"forward/rounding/bf16/", {1024 * 6}},
                                      {"backward/rounding/bf16/", {1024 * 6}}};
  for (const char* precision : {"fp32", "tf32", "bf16"}) {
    const double size = std::string(precision) == "bf16" ? 2 : 4;
    for (const auto& [name, bytes] : operations(size)) all[name + "/" + precision + "/"] = bytes;
    all[std::string("forward/conv1/") + precision + "_library/"] = {784 * 33 * size, size * kConv1};
    all[std::string("backward/conv1/") + precision + "_library/"] = {784 * 33 * size, 4 * kConv1};
  }
  return all;
}

// ResNet-50's convolutions would take minutes in plain loops.
TEST(GpuOpsBench, CountsTheBytesOfResNetsOperations) {
  const Outcome ran =
      run("STAND_IN_GPUS=1", HOST_MODULE, "--benchmark_filter='resnet50_(norm_2048|avg_pool)'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  // Two samples; of each channel two numbers that are saved, parameters or their gradients.
  constexpr double kMap = 2.0 * 2048 * 49, kPixels = 2.0 * 2048, kPair = 2 * 4 * 2048;
  std::map<std::string, double> seen;
  for (const json& result : ran.results) {
    EXPECT_FALSE(result.contains("error_occurred")) << result;
    const std::string name = result.at("name");
    seen[name.substr(0, name.find("/size:2/"))] = result.at("bytes");
  }
  std::map<std::string, double> expected;
  for (const auto& [precision, size] : {std::pair("fp32", 4), {"tf32", 4}, {"bf16", 2}}) {
    const auto name = [&, p = precision](const char* op, const char* pass) {
      return fmt::format("{}/resnet50_{}_2048_7/{}", pass, op, p);
    };
    expected[name("norm", "forward")] = 2 * kMap * size + 2 * kPair;
    expected[name("norm", "backward")] = 3 * kMap * size + 3 * kPair;
    expected[name("avg_pool", "forward")] = expected[name("avg_pool", "backward")] =
        (kMap + kPixels) * size;
  }
  EXPECT_EQ(seen, expected);
}

TEST(GpuOpsBench, RunsEveryOperationAndCountsItsBytes) {
  const Outcome ran = run("STAND_IN_GPUS=1", HOST_MODULE, "--benchmark_filter=-resnet50");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::map<std::string, Bytes> all = all_cases();
  EXPECT_EQ(ran.results.size(), all.size());
  for (const json& result : ran.results) {
    const std::string name = result.at("name");
    EXPECT_FALSE(result.contains("error_occurred")) << result;
    const auto known = all.find(name.substr(0, name.find("size:2/")));
    ASSERT_NE(known, all.end()) << name;
    EXPECT_DOUBLE_EQ(result.at("bytes"), known->second.of_one * 2 + known->second.of_all) << name;
    EXPECT_GT(result.at("bytes_per_s"), 0) << name;
    const bool product =
        name.find("/conv") != std::string::npos || name.find("/fc") != std::string::npos;
    if (product) {
      EXPECT_GT(result.at("FLOP_per_s"), 0) << name;
    }
  }
}

TEST(GpuOpsBench, SaysThatThereIsNoGpuAndSkips) {
  const Outcome none = run("STAND_IN_GPUS=0", HOST_MODULE, "");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.err.find("skipped: no GPU"), std::string::npos) << none.err;
}

TEST(GpuOpsBench, SaysThatThereIsNoModule) {
  const Outcome none = run("", "/nowhere/libddpbench_cuda.so", "");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.err.find("the CUDA module cannot be opened"), std::string::npos) << none.err;
}

TEST(GpuOpsBench, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(run("", HOST_MODULE, "--launches=0").exit_code, 2);
  EXPECT_EQ(run("", HOST_MODULE, "--lunches=3").exit_code, 2);
}

}  // namespace
}  // namespace ddpbench
