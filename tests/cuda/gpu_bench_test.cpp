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

constexpr double kL2Bytes = 1 << 14;

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
      "{} '{}' --module='{}' --l2-bytes={} --batches=2 --launches=2 --rounds=2 --gemm=16 "
      "--benchmark_out='{}' --benchmark_out_format=json {} >/dev/null 2>'{}'",
      before, GPU_OPS_BENCH, module, kL2Bytes, out, more, err);
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
  return {
      {"conv1_own/forward", {784 * 33 * size, 4 * kConv1}},
      {"conv1_own/backward", {784 * 33 * size, 4 * kConv1}},
      {"conv1_library/forward", {784 * 33 * size, size * kConv1}},
      {"conv1_library/backward", {784 * 33 * size, 4 * kConv1}},
      {"conv2/forward", {196 * 96 * size, size * kConv2}},
      {"conv2/backward", {196 * 128 * size, (4 + size) * kConv2}},
      {"fc1/forward", {3264 * size, size * kFc1}},
      {"fc1/backward", {2 * 3264 * size, (4 + size) * kFc1}},
      {"fc2/forward", {138 * size, size * kFc2}},
      {"fc2/backward", {266 * size, (4 + size) * kFc2}},
      {"pool1/forward", {pool1}},
      {"pool1/backward", {pool1}},
      {"conv2_pool2/forward", {(196 * 32 + map2 / 4) * size + map2 / 4, size * kConv2}},
      {"conv2_pool2/backward", {(2 * 196 * 32 + map2 / 4) * size + map2 / 4, (4 + size) * kConv2}},
      {"pool2/forward", {pool2}},
      {"pool2/backward", {pool2}},
      {"relu/forward", {2 * map1 * size}},
      {"relu/backward", {3 * map1 * size}},
      {"add/forward", {3 * map1 * size}},
      {"add/backward", {3 * map1 * size}},
      {"reorder/forward", {2 * map1 * size}},
      {"reorder/backward", {2 * map1 * size}}};
}

// All benchmarks, by the beginnings of their names.
std::map<std::string, Bytes> all_cases() {
  std::map<std::string, Bytes> all = {{"copy/", {0, 8 * kL2Bytes}},
                                      {"sgd/", {12}},
                                      {"sgd_momentum/", {20}},
                                      {"mean/inputs:2/", {12}},
                                      {"adam/", {28}},
                                      {"mean/inputs:8/", {36}},
                                      {"loss/classes:10/", {84}},
                                      {"loss/classes:1000/", {8004}},
                                      {"gather/elements:784/", {784 * 5 + 10}}};
  for (const char* precision : {"fp32", "tf32", "bf16"}) {
    const double size = std::string(precision) == "bf16" ? 2 : 4;
    if (size == 2) {
      all["rounding/forward/bf16/"] = {1024 * 6};
      all["rounding/backward/bf16/"] = {1024 * 6};
    }
    for (const auto& [name, bytes] : operations(size)) {
      const bool product = name.starts_with("conv") || name.starts_with("fc");
      if (std::string(precision) == "tf32" && !product) continue;
      all[name + "/" + precision + "/"] = bytes;
    }
  }
  return all;
}

double ones_of(const json& result) {
  for (const char* const name : {"samples", "elements"}) {
    if (result.contains(name)) return result.at(name);
  }
  return 0;
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
    seen[name.substr(0, name.find("/batch:2/"))] = result.at("bytes");
  }
  std::map<std::string, double> expected;
  for (const auto& [precision, size] : {std::pair("fp32", 4), {"bf16", 2}}) {
    const auto name = [&, p = precision](const char* op, const char* pass) {
      return fmt::format("resnet50_{}_2048_7/{}/{}", op, pass, p);
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
  std::map<std::string, int> seen;
  for (const json& result : ran.results) {
    const std::string name = result.at("name");
    EXPECT_FALSE(result.contains("error_occurred")) << result;
    const auto all = all_cases();
    const auto known = std::find_if(
        all.begin(), all.end(), [&](const auto& entry) { return name.starts_with(entry.first); });
    ASSERT_NE(known, all.end()) << name;
    ++seen[known->first];
    const double bytes = result.at("bytes");
    EXPECT_DOUBLE_EQ(bytes, known->second.of_one * ones_of(result) + known->second.of_all) << name;
    const bool streams = name.find("batch:") == std::string::npos;
    if (streams) {
      EXPECT_GE(bytes, 8 * kL2Bytes) << name;
    }
    for (const char* counter : {"bytes_per_s", "share_of_copy"}) {
      EXPECT_GT(result.at(counter).get<double>(), 0) << name;
    }
    const bool product =
        name.starts_with("conv1_library") || name.starts_with("conv2") || name.starts_with("fc");
    EXPECT_EQ(result.contains("share_of_bound"), product) << name;
  }
  for (const auto& [name, bytes] : all_cases()) EXPECT_GE(seen[name], 1) << name << " did not run";
}

TEST(GpuOpsBench, SaysThatThereIsNoGpuAndSkips) {
  const Outcome none = run("STAND_IN_GPUS=0", HOST_MODULE, "");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.err.find("skipped: no GPU"), std::string::npos) << none.err;
  const Outcome other = run("STAND_IN_GPUS=1", HOST_MODULE, "--device=7");
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_NE(other.err.find("--device=7: there are 1 GPUs here"), std::string::npos) << other.err;
}

TEST(GpuOpsBench, SaysThatThereIsNoModule) {
  const Outcome none = run("", "/nowhere/libddpbench_cuda.so", "");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_NE(none.err.find("the CUDA module cannot be opened"), std::string::npos) << none.err;
}

TEST(GpuOpsBench, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(run("", HOST_MODULE, "--rounds=0").exit_code, 2);
  EXPECT_EQ(run("", HOST_MODULE, "--lunches=3").exit_code, 2);
}

}  // namespace
}  // namespace ddpbench
