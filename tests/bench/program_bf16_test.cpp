// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --precision=bf16 on CPU devices, as a user runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/ops/backend.h"
#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;

const std::string kBf16 = "--precision=bf16";

class ProgramBf16 : public testing::Test {
 protected:
  ProgramBf16() { program.write("lenet.json", test::small_config({.steps = 3})); }
  void SetUp() override {
    if (const std::string reason = ops::why_no_cpu_bf16(); !reason.empty()) {
      GTEST_SKIP() << "CPU devices do not compute in bf16 here: " << reason;
    }
  }
  Program program;
};

TEST_F(ProgramBf16, IsVerifiedUnderEveryStrategyAndReported) {
  const auto result =
      program.run(small_run("single,dp,ddp,ps,zero1,zero2", {kBf16, "--verify-steps=4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 6u);
  for (const json& run : runs) {
    SCOPED_TRACE(run["strategy"]);
    EXPECT_EQ(run["precision"], "bf16");
    EXPECT_EQ(run["device"], "cpu");
    EXPECT_TRUE(std::isfinite(run["epochs"][0]["train_loss"].get<double>()));
    if (run["strategy"] == "single") continue;
    EXPECT_EQ(run["verification"]["status"], "passed");
    EXPECT_NEAR(run["verification"]["tolerance"].get<double>(), 0.02, 1e-4);  // the cap, 1/50
  }
}

// How it compares with fp32's depends on the processor: twice on a Zen 5, half on a Xeon whose
// virtual machine hides AMX.
TEST_F(ProgramBf16, HasAPeakWhereItsInstructionsAreMeasured) {
  EXPECT_EQ(program.run(small_run("single", {kBf16, "--force"})).exit_code, 0);
  const json throughput = program.report()["runs"][0]["throughput"];
  if (ops::cpu_bf16_uses_amx()) {
    EXPECT_THAT(throughput["peak_flops_per_s_per_device_reason"].get<std::string>(),
                HasSubstr("AMX"));
  } else {
    EXPECT_GT(throughput["peak_flops_per_s_per_device"].get<double>(), 0);
  }
}

// Batch norm with a sum behind it, dropout and an average pool: bf16 and fp32 maps in one network.
TEST_F(ProgramBf16, NormalisedNetworksAreVerifiedToo) {
  test::use_normalized_network(program, 3, R"({"name": "pool", "type": "avg_pool2d", "kernel": 2},
      {"name": "drop", "type": "dropout", "p": 0.2},)");
  for (const char* sync : {"--sync-batch-norm=off", "--sync-batch-norm=on"}) {
    SCOPED_TRACE(sync);
    const auto result = program.run(
        small_run("dp,ddp,ps", {kBf16, sync, "--verify-steps=6", "--lr=0.05", "--force"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    for (const json& run : report["runs"])
      EXPECT_EQ(run["verification"]["status"], "passed") << run["strategy"];
  }
}

// A bucket that is not reduced, a parameter of an earlier step: the tolerance of bf16 hides
// neither.
TEST_F(ProgramBf16, FaultsAreFound) {
  for (const char* fault : {"missing_bucket:bucket=0", "stale:rank=0,step=2"}) {
    SCOPED_TRACE(fault);
    const auto result = program.run(
        small_run("ddp", {kBf16, "--verify-steps=4", std::string("--inject=") + fault, "--force"}));
    EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  }
}

// Gradients cancel in front of a batch norm. That hides no shard that is not reduced, and a healthy
// run is verified, also with Adam and where slices have not the bits of the replicas.
TEST_F(ProgramBf16, FaultsOfNormalisedNetworksAreFound) {
  test::use_normalized_network(program, 3);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {kBf16,         "--optimizer=adam", "--lr=0.001",
                                          "--servers=3", "--verify-steps=3", "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run(small_run("ps", arguments));
  };
  for (const auto& [sync, devices] :
       {std::pair("--sync-batch-norm=off", "--gpus=3"), {"--sync-batch-norm=on", "--gpus=2"}}) {
    SCOPED_TRACE(fmt::format("{} {}", sync, devices));
    const auto healthy = run({sync, devices});
    ASSERT_EQ(healthy.exit_code, 0) << healthy.err;
    EXPECT_EQ(program.report()["runs"][0]["verification"]["status"], "passed");
    EXPECT_EQ(run({sync, devices, "--inject=missing_bucket:bucket=2"}).exit_code, 5);
  }
}

TEST_F(ProgramBf16, ActivationsTakeAboutHalfTheMemory) {
  std::vector<double> bytes;
  for (const char* precision : {"fp32", "bf16"}) {
    const auto result =
        program.run(small_run("single", {"--force", "--batch-size=64", "--verify-steps=0",
                                         fmt::format("--precision={}", precision)}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json memory = program.report()["runs"][0]["devices"][0]["memory"]["by_category_bytes"];
    bytes.push_back(memory["activations"]);
    bytes.push_back(memory["weights"]);
    bytes.push_back(memory["gradients"]);
  }
  EXPECT_LT(bytes[3], 0.75 * bytes[0]);
  // Both are fp32, whatever maps are: LeNet-5 has 61706 parameters, and blocked layouts pad them
  // (oneDNN 3.7's for bf16 by a sixth).
  for (const double flat : {bytes[4], bytes[5]}) {
    EXPECT_GE(flat, 4 * 61706);
    EXPECT_LE(flat, 1.25 * 4 * 61706);
  }
}

TEST_F(ProgramBf16, FitPlansLargerBatches) {
  std::vector<int> batches;
  for (const char* precision : {"fp32", "bf16"}) {
    const auto result =
        program.run({"fit", "--config=lenet.json", "--format=json", "--strategy=single",
                     "--memory-per-device=16MiB", fmt::format("--precision={}", precision)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    batches.push_back(json::parse(result.out)["fits"][0]["batch_per_device"]);
  }
  EXPECT_GT(batches[1], batches[0]);
}

TEST_F(ProgramBf16, DryRunSetsItUp) {
  const auto result = program.run(small_run("ddp", {kBf16, "--dry-run"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// The same where ONEDNN_MAX_CPU_ISA takes away what the processor has.
TEST(ProgramWithoutBf16, IsRefusedWithTheReasonBeforeAnythingIsAllocated) {
  Program program;
  program.write("lenet.json", test::small_config({}));
  program.environment["ONEDNN_MAX_CPU_ISA"] = "AVX2";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--dry-run"}}) {
    std::vector<std::string> arguments = small_run("ddp", {kBf16});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr(kBf16), HasSubstr("fp32 only here"), HasSubstr("avx512_bf16")));
    EXPECT_FALSE(std::filesystem::exists(program.path("report.json")));
  }
  EXPECT_EQ(program.run({"fit", "--config=lenet.json", kBf16}).exit_code, 3);
  EXPECT_THAT(program.run({"info"}).out, HasSubstr("--precision: fp32; not bf16: "));
}

// Whether a network learns as in fp32: trained equally, it recognises as large a share of the test
// images, up to noise. Two shares of n images differ with twice the variance of one; two trainings
// of different roundings by about as much again. That makes 4 standard deviations of the sum.
class LearningInBf16 : public ProgramBf16 {
 protected:
  void SetUp() override {
    ProgramBf16::SetUp();
    if (!std::filesystem::is_directory(kData))
      GTEST_SKIP() << "there are no data files in " << kData;
  }

  void expect_equal_accuracy(const std::string& data_dir, const json& config, double n) {
    program.write("real.json", config.dump());
    std::vector<double> accuracies;
    for (const char* precision : {"fp32", "bf16"}) {
      const auto result = program.run({"--config=real.json", "--strategy=single", "--device=cpu",
                                       "--force", "--data-dir=" + data_dir, "--json=report.json",
                                       fmt::format("--precision={}", precision)});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const json run = program.report()["runs"][0];
      EXPECT_EQ(run["dataset"]["source"], "files");
      accuracies.push_back(run["epochs"].back()["test_accuracy"]);
    }
    const double p = accuracies[0];
    EXPECT_NEAR(accuracies[1], p, 4 * std::sqrt(4 * p * (1 - p) / n));
    EXPECT_GT(std::min(p, accuracies[1]), 0.25);  // ten classes, no knowledge: 0.1
  }

  static constexpr const char* kData = DDPBENCH_TEST_DATA_DIRECTORY;
};

TEST_F(LearningInBf16, RecognisesAsManyDigitsAsFp32) {
  const json dataset = {{"name", "mnist"}, {"on_missing", "error"}};
  expect_equal_accuracy(kData,
                        {{"model", "lenet5"},
                         {"dataset", dataset},
                         {"lr", 0.05},
                         {"momentum", 0.9},
                         {"batch_size", 64},
                         {"epochs", 1},
                         {"verify_steps", 0},
                         {"warmup_steps", 1}},
                        10000);
}

TEST_F(LearningInBf16, RecognisesAsManyPhotosAsFp32) {
  const std::filesystem::path subset = std::filesystem::path(kData) / "cifar-10-subset";
  std::filesystem::create_directories(program.path("data/cifar10"));
  std::filesystem::create_symlink(subset / "data_batch_1_first4000.bin",
                                  program.path("data/cifar10/data_batch_1.bin"));
  std::filesystem::create_symlink(subset / "test_batch_first1000.bin",
                                  program.path("data/cifar10/test_batch.bin"));
  const json dataset = {{"name", "cifar10"},
                        {"on_missing", "error"},
                        {"mean", {0.4914, 0.4822, 0.4465}},
                        {"std", {0.2470, 0.2435, 0.2616}}};
  expect_equal_accuracy("data",
                        {{"model", "cifar_cnn"},
                         {"dataset", dataset},
                         {"lr", 0.02},
                         {"momentum", 0.9},
                         {"batch_size", 64},
                         {"epochs", 2},
                         {"verify_steps", 0},
                         {"warmup_steps", 1}},
                        1000);
}

}  // namespace
}  // namespace ddpbench
