// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verification of whole runs: healthy ones pass however many steps they take, divergence is
// told from a wrong strategy, and planted faults that would hit nothing are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "kernels/nn/safetensors.h"
#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerifiedProgram : public testing::Test {
 protected:
  VerifiedProgram() { program.write("lenet.json", test::small_config({.steps = 2})); }
  Program program;
};

// Free-running, two healthy computations drift apart: by 60 steps, or at this learning rate from 20
// steps on, farther than any fixed bound allows.
TEST_F(VerifiedProgram, PassesAfterManyStepsAtALargeLearningRate) {
  const auto result =
      program.run(small_run("dp,ddp,ps", {"--verify-steps=40", "--lr=0.1", "--gpus=3"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 3u);
  for (const json& run : runs) {
    SCOPED_TRACE(run["strategy"]);
    const json& verification = run["verification"];
    EXPECT_EQ(verification["status"], "passed");
    EXPECT_EQ(verification["steps"], 40);
    EXPECT_LE(verification["max_relative_error"], verification["tolerance"]);
    EXPECT_LT(verification["tolerance"], 0.05);
  }
}

TEST_F(VerifiedProgram, PassesAtATinyLearningRate) {
  const auto result = program.run(small_run("dp,ddp,ps", {"--verify-steps=3", "--lr=1e-6"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// Weights do not move at such a rate, whatever a strategy does.
TEST_F(VerifiedProgram, IsNotCalledVerifiedWhereNothingCouldFail) {
  const auto result = program.run(small_run("dp,ddp,ps", {"--verify-steps=3", "--lr=1e-12"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 3u);
  for (const json& run : runs) {
    SCOPED_TRACE(run["strategy"]);
    EXPECT_EQ(run["verification"]["status"], "not_applicable");
    EXPECT_THAT(std::string(run["verification"]["reason"]), HasSubstr("rounding alone"));
  }
  EXPECT_THAT(result.out, HasSubstr(") not verified: "));
}

class HealthyRun : public VerifiedProgram, public testing::WithParamInterface<std::string> {};

// One missed update among many, and not the first.
TEST_P(HealthyRun, IsToldFromOneThatMissesALateUpdate) {
  const auto result =
      program.run(small_run(GetParam(), {"--verify-steps=16", "--inject=stale:rank=0,step=13"}));
  EXPECT_EQ(result.exit_code, 5) << result.err;
  const json verification = program.report()["runs"][0]["verification"];
  EXPECT_EQ(verification["status"], "failed");
  EXPECT_EQ(verification["worst_step"], 14);
}

// Batch norm, dropout and ignored labels are in accumulation_test.cpp; here is the way to a report.
TEST_F(VerifiedProgram, OfStepsOfSeveralPassesAgreesInEveryStrategy) {
  const std::vector<std::string> networks[] = {
      {"--batch-size=8"},
      {"--model=resnet20", "--dataset=cifar10", "--data-dir=data", "--batch-size=2"}};
  test::write_cifar(program, 1);  // few: of drawn ones each run evaluates 10,000
  for (std::vector<std::string> options : networks) {
    options.insert(options.end(),
                   {"--accumulation-steps=3", "--accumulation-sync=every,last", "--force"});
    const auto result = program.run(small_run("single,dp,ddp,ps", options));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    ASSERT_EQ(report["runs"].size(), 5);
    for (const json& run : report["runs"]) {
      EXPECT_EQ(run["verification"]["status"],
                run["strategy"] == "single" ? "reference" : "passed");
      const std::int64_t passes = run["accumulation_steps"], devices = run["world_size"];
      EXPECT_EQ(passes, 3);
      const std::int64_t batch = run["per_device_batch_size"];
      EXPECT_EQ(run["global_batch_size"], passes * devices * batch);
      EXPECT_EQ(run["epochs"][0]["samples"], 2 * passes * devices * batch);
    }
  }
}

// Local SGD that synchronises every step is verified as ddp is; else its distance is told.
TEST_F(VerifiedProgram, OfLocalSgdSaysHowFarItIsFromTheReference) {
  const auto result =
      program.run(small_run("localsgd", {"--sync-every=1,2", "--outer-momentum=0,0.5", "--steps=5",
                                         "--verify-steps=3", "--batch-size=8", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 4);
  for (const json& run : report["runs"]) {
    const bool is_ddp = run["strategy_options"]["sync_every"] == 1 &&
                        !run["strategy_options"].contains("outer_momentum");
    const json verification = run["verification"];
    EXPECT_EQ(verification["status"], is_ddp ? "passed" : "not_applicable");
    EXPECT_EQ(verification.contains("divergence"), !is_ddp);
    if (is_ddp) continue;
    EXPECT_GT(verification["divergence"], 1e-4);
    EXPECT_LT(verification["divergence"], 2);
    EXPECT_EQ(verification["steps"], run["strategy_options"]["sync_every"] == 2 ? 4 : 3);
  }
  const json cycle = report["runs"][2], step = report["runs"][0];
  EXPECT_EQ(cycle["strategy_options"]["sync_every"], 2);
  EXPECT_EQ(cycle["step"]["samples_s"].size(), 2);
  EXPECT_EQ(cycle["step"]["count"], 4);
  EXPECT_EQ(2 * cycle["traffic"]["bytes"].get<int>(), step["traffic"]["bytes"]);
}

// Layers on two devices, in two passes: verified, and evaluated and reported as one network.
TEST_F(VerifiedProgram, OfAPipelineSplitsLayersAndTellsHowLongStagesIdle) {
  const auto result =
      program.run(small_run("pipeline", {"--micro-batches=2", "--steps=3", "--batch-size=8",
                                         "--save-model=w.safetensors", "--force"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("(equal ones at least 33 %)"));
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["verification"]["status"], "passed");
  EXPECT_EQ(run["strategy_options"]["stages"], 2);
  EXPECT_EQ(run["epochs"][0]["samples"], 3 * 2 * 8);
  EXPECT_GT(run["epochs"][0]["train_loss"], 0);
  EXPECT_GE(run["devices"][1]["phases"]["stage_wait_s"], 0);
  EXPECT_TRUE(run["phases"]["comm_s"].is_null());
  const auto wrong = program.run(small_run("pipeline", {"--cut=conv9", "--force"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--cut=conv9: "));
}

TEST_F(VerifiedProgram, OfLocalSgdHasNoCycleLongerThanAnEpoch) {
  ASSERT_EQ(program.run(small_run("localsgd", {"--steps=3"})).exit_code, 0);
  EXPECT_EQ(program.report()["runs"][0]["strategy_options"]["sync_every"], 3);
  const auto result =
      program.run(small_run("localsgd", {"--steps=3", "--sync-every=4", "--force"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--sync-every=4: an epoch has 3 steps"));
}

TEST_F(VerifiedProgram, OfLocalSgdIsToldFromOneWithAFault) {
  for (const char* fault : {"sum", "missing_bucket:bucket=0", "stale:rank=1,step=2"}) {
    const auto result =
        program.run(small_run("localsgd", {"--sync-every=1", "--verify-steps=4", "--force",
                                           std::string("--inject=") + fault}));
    EXPECT_EQ(result.exit_code, 5) << fault << result.err;
  }
}

// Approximate, but equal on all replicas.
TEST_F(VerifiedProgram, OfHooksAndAveragesStillWantsEqualReplicas) {
  for (const auto& [strategy, option] :
       {std::pair("ddp", "--comm-hook=bf16"), std::pair("ddp", "--comm-hook=int8"),
        std::pair("ddp", "--comm-hook=powersgd:2"), std::pair("localsgd", "--sync-every=2")}) {
    const auto result =
        program.run(small_run(strategy, {option, "--inject=missing_bucket:bucket=0", "--force"}));
    EXPECT_EQ(result.exit_code, 5) << option << result.err;
    const json verification = program.report()["runs"][0]["verification"];
    EXPECT_EQ(verification["status"], "failed");
    EXPECT_EQ(verification["replicas_bit_equal"], false);
  }
}

TEST_F(VerifiedProgram, OfServersThatMayLagByNoStepIsThatOfSynchronousOnes) {
  const auto result = program.run(
      small_run("ps", {"--gpus=3", "--ps-mode=sync,async", "--max-staleness=0", "--steps=4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 2);
  for (const json& run : runs) {
    EXPECT_EQ(run["verification"]["status"], "passed");
    EXPECT_FALSE(run.contains("pushes"));
  }
  EXPECT_EQ(runs[0]["epochs"][0]["train_loss"], runs[1]["epochs"][0]["train_loss"]);
  EXPECT_EQ(runs[1]["strategy_options"]["ps_mode"], "async");
}

TEST_F(VerifiedProgram, OfAsynchronousServersTellsDivergenceAndStaleness) {
  const auto result = program.run(
      small_run("ps", {"--gpus=3", "--servers=2", "--ps-mode=async", "--max-staleness=3",
                       "--steps=8", "--epochs=2", "--inject=slow:rank=1,ms=10"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["verification"]["status"], "not_applicable");
  EXPECT_GT(run["verification"]["divergence"], 0);
  const json& pushes = run["pushes"];
  EXPECT_EQ(pushes["updates"], 3 * 8 * 2);
  EXPECT_EQ(pushes["dropped"], 0);
  std::int64_t counted = 0;
  for (const json& count : pushes["pushes_by_staleness"]) counted += count.get<std::int64_t>();
  EXPECT_EQ(counted, 3 * 8 * 2);
  EXPECT_LE(pushes["staleness_p50"], pushes["staleness_max"]);
  EXPECT_LE(pushes["staleness_max"], (3 - 1) * (2 * 3 + 1));
  double samples = 0, time_s = 0;
  for (const json& epoch : run["epochs"]) {
    samples += epoch["samples"].get<double>();
    time_s += epoch["time_s"].get<double>();
  }
  EXPECT_NEAR(run["throughput"]["samples_per_s"].get<double>() * time_s / samples, 1, 1e-9);
}

// So many steps behind take longer than a rank may stand still.
TEST_F(VerifiedProgram, OfAsynchronousServersEndsWhereOneWorkerIsFarBehind) {
  const auto result = program.run(
      small_run("ps", {"--ps-mode=async", "--max-staleness=1000", "--steps=40", "--timeout=2",
                       "--verify-steps=0", "--inject=slow:rank=1,ms=50"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(VerifiedProgram, OfOneAsynchronousWorkerIsThatOfSynchronousOnes) {
  const auto result = program.run(small_run("ps", {"--gpus=1", "--ps-mode=async"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["verification"]["status"], "passed");
  EXPECT_FALSE(run.contains("pushes"));
}

TEST_F(VerifiedProgram, OfBackupWorkersDropsWhatASlowWorkerPushes) {
  const auto result = program.run(small_run(
      "ps", {"--gpus=3", "--backup-workers=1", "--steps=8", "--inject=slow:rank=1,ms=30"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["verification"]["status"], "not_applicable");
  EXPECT_EQ(run["pushes"]["updates"], 8);
  EXPECT_GT(run["pushes"]["dropped"], 0);
  EXPECT_EQ(run["step"]["count"], 8);
  EXPECT_GE(run["devices"][1]["step_time_median_s"], 0.03);
  const json& epoch = run["epochs"][0];
  double updates_s = 0;  // from the first begin to the last update
  for (const json& interval : run["step"]["samples_s"]) updates_s += interval.get<double>();
  EXPECT_LE(updates_s, epoch["time_s"].get<double>() * 1.001);
  const auto samples = run["global_batch_size"].get<std::int64_t>() * 8 * 2 / 3;
  EXPECT_EQ(epoch["samples"], samples);
  EXPECT_EQ(run["progress"].back()["samples"], samples);
  EXPECT_NEAR(
      epoch["samples_per_s"].get<double>() / run["throughput"]["samples_per_s"].get<double>(), 1,
      1e-9);
}

// With `none` it is ddp of today; else the report says how far it goes.
TEST_F(VerifiedProgram, OfAHookIsApproximateAndTellsItsDivergence) {
  const auto result = program.run(small_run("ddp", {"--comm-hook=none,fp16,topk:10,powersgd:2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0]["verification"]["status"], "passed");
  EXPECT_FALSE(runs[0]["strategy_options"].contains("comm_hook"));
  const auto divergence = [&](int run) { return double(runs[run]["verification"]["divergence"]); };
  for (const int run : {1, 2, 3}) EXPECT_EQ(runs[run]["verification"]["status"], "not_applicable");
  EXPECT_EQ(runs[1]["strategy_options"]["comm_hook"], "fp16");
  EXPECT_GT(divergence(1), 1e-6);
  EXPECT_LT(divergence(1), 0.01);
  EXPECT_EQ(runs[2]["strategy_options"]["comm_hook"], "topk:10");
  EXPECT_FALSE(runs[2]["strategy_options"].contains("all_reduce"));
  EXPECT_GT(divergence(2), 10 * divergence(1));
  EXPECT_LT(divergence(2), 1);
  EXPECT_EQ(runs[3]["strategy_options"]["comm_hook"], "powersgd:2");
  EXPECT_TRUE(runs[3]["strategy_options"].contains("all_reduce"));
  EXPECT_GT(divergence(3), 10 * divergence(1));
  EXPECT_LT(divergence(3), 1);
}

TEST_F(VerifiedProgram, OfSeveralPassesIsToldFromOneWithAFault) {
  for (const auto& [strategy, fault] : {std::pair("dp", "sum"),
                                        {"ddp", "missing_bucket:bucket=0"},
                                        {"ps", "stale:rank=1,step=2"}}) {
    const auto result =
        program.run(small_run(strategy, {"--accumulation-steps=2", "--verify-steps=4", "--force",
                                         std::string("--inject=") + fault}));
    EXPECT_EQ(result.exit_code, 5) << strategy << ' ' << fault << result.err;
  }
}

INSTANTIATE_TEST_SUITE_P(, HealthyRun, testing::Values("dp", "ddp", "ps"),
                         [](const auto& p) { return p.param; });

// Each optimizer in each strategy is in parallel_tests; here is the way of its options to the
// ranks.
class OptimizedRun : public VerifiedProgram,
                     public testing::WithParamInterface<std::vector<std::string>> {
 protected:
  std::vector<std::string> with(std::vector<std::string> options) const {
    options.insert(options.end(), GetParam().begin(), GetParam().end());
    return options;
  }
};

TEST_P(OptimizedRun, AgreesWithOneDeviceWhoeverUpdates) {
  const auto result = program.run(
      small_run("ddp,ps", with({"--verify-steps=10", "--gpus=3", "--ps-update=server,worker"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 3);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["verification"]["status"], "passed");
    EXPECT_LT(run["verification"]["tolerance"], 0.05);
  }
}

TEST_P(OptimizedRun, IsToldFromOneWithAFault) {
  for (const auto& [strategy, fault] :
       {std::pair("ddp", "missing_bucket:bucket=0"), {"ps", "stale:rank=0,step=7"}}) {
    const auto result = program.run(small_run(
        strategy, with({"--verify-steps=10", "--force", std::string("--inject=") + fault})));
    EXPECT_EQ(result.exit_code, 5) << strategy << " " << fault << result.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , OptimizedRun,
    testing::Values(std::vector<std::string>{"--nesterov", "--weight-decay=0.01",
                                             "--lr-schedule=step", "--lr-step-size=4",
                                             "--lr-gamma=0.7", "--lr-warmup-steps=3"},
                    std::vector<std::string>{"--optimizer=adam", "--weight-decay=0.01",
                                             "--lr-schedule=cosine", "--lr-cosine-steps=20"},
                    std::vector<std::string>{"--optimizer=adamw", "--lr=0.01"}),
    [](const auto& p) { return "With" + std::to_string(p.index); });

TEST_F(VerifiedProgram, ReportsTheOptimizer) {
  ASSERT_EQ(program.run(small_run("single", {"--optimizer=adamw"})).exit_code, 0);
  EXPECT_EQ(program.report()["runs"][0]["optimizer"],
            json::parse(R"({"name": "adamw", "lr": 0.001, "beta1": 0.9, "beta2": 0.999,
                            "epsilon": 1e-8, "weight_decay": 0.01})"));
}

TEST_F(VerifiedProgram, ReportsTheScheduleAsItWasResolved) {
  const auto result = program.run(small_run(
      "single", {"--lr-schedule=cosine", "--lr-warmup-steps=2", "--epochs=3", "--steps=4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["runs"][0]["optimizer"],
            json::parse(R"({"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.0,
                            "lr_schedule": "cosine", "lr_cosine_steps": 10.0, "lr_min": 0.0,
                            "lr_warmup_steps": 2.0, "lr_warmup_factor": 0.01})"));
}

TEST_F(VerifiedProgram, DivergenceIsNotAWrongStrategy) {
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    const auto result =
        program.run(small_run(strategy, {"--lr=1e10", "--verify-steps=20", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << strategy << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("diverged"), Not(HasSubstr("does not compute"))));
    const json report = program.report();
    EXPECT_EQ(report["status"], "failed");
    EXPECT_EQ(report["error"]["kind"], "diverged");
    EXPECT_EQ(report["runs"][0]["status"], "diverged");
    EXPECT_EQ(report["runs"][0]["verification"]["status"], "diverged");
    EXPECT_EQ(report["runs"][0]["step"]["count"], 2);  // it is timed all the same
  }
}

// The first update makes weights of 1e8 and more; two layers later, activations overflow.
TEST_F(VerifiedProgram, NamesTheStepWhoseLossIsNotFinite) {
  for (const char* strategy : {"single", "dp", "ddp", "ps"}) {
    SCOPED_TRACE(strategy);
    const auto result = program.run(small_run(
        strategy, {"--lr=1e30", "--verify-steps=0", "--epochs=4", "--steps=3", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    const std::string said =
        "training diverged: the loss of step 2 (in epoch 1) is not finite; epochs 2 to 4 were left "
        "out; use a smaller";
    EXPECT_THAT(result.err, HasSubstr(said));
    EXPECT_THAT(result.out, HasSubstr("training diverged: the loss of step 2 (in epoch 1)"));
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["status"], "diverged");
    EXPECT_EQ(run["diverged_step"], 2);
    EXPECT_EQ(run["error"]["step"], 2);
    EXPECT_EQ(run["step"]["count"], 3);
    EXPECT_EQ(run["epochs"].size(), 1u);
    EXPECT_TRUE(run["epochs"][0]["train_loss"].is_null());
  }
}

// Rank 1 does not make the first update, so its loss is still finite when the epoch ends. If each
// rank decided alone, it would wait in the second epoch for the others.
TEST_F(VerifiedProgram, EndsWithTheEpochInWhichTheLossOfOneRankIsNotFinite) {
  for (const char* strategy : {"ddp", "ps"}) {
    SCOPED_TRACE(strategy);
    const auto result = program.run(
        small_run(strategy, {"--lr=1e30", "--verify-steps=0", "--warmup-steps=0", "--epochs=2",
                             "--inject=stale:rank=1,step=0", "--timeout=20", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("(in epoch 1) is not finite; epochs 2 to 2 were left out"));
    EXPECT_EQ(program.report()["runs"][0]["epochs"].size(), 1u);
  }
}

// Its steps may be all that is asked for.
TEST_F(VerifiedProgram, TrainsAllEpochsWhileTheLossIsFinite) {
  const auto result =
      program.run(small_run("ddp", {"--lr=1e4", "--verify-steps=0", "--epochs=2", "--steps=2"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_THAT(run["error"]["message"].get<std::string>(), Not(HasSubstr("left out")));
  EXPECT_EQ(run["epochs"].size(), 2u);
}

// No loss is computed from the weights of the last step. The decay alone makes them infinite.
TEST_F(VerifiedProgram, FindsWeightsThatTheLastUpdateMadeInfinite) {
  for (const char* strategy : {"single", "dp", "ddp", "ps"}) {
    SCOPED_TRACE(strategy);
    const auto result =
        program.run(small_run(strategy, {"--lr=1e38", "--weight-decay=1e6", "--verify-steps=0",
                                         "--warmup-steps=0", "--steps=1", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("training diverged: after the last step "),
                                  HasSubstr(" of rank 0 is not finite")));
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["status"], "diverged");
    EXPECT_TRUE(run["diverged_step"].is_null());
    EXPECT_EQ(run["diverged_step_reason"], "the loss of every step is finite");
    EXPECT_FALSE(run["epochs"][0]["train_loss"].is_null());
  }
}

// Whoever finds it first, verification or training.
TEST_F(VerifiedProgram, DivergedWeightsReplaceNone) {
  for (const char* verify : {"--verify-steps=0", "--verify-steps=20"}) {
    program.write("w.safetensors", "of before");
    const auto result = program.run(
        small_run("ddp", {"--lr=1e30", verify, "--save-model=w.safetensors", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.out, HasSubstr("weights: w.safetensors was not written: training diverged"));
    EXPECT_EQ(program.read("w.safetensors"), "of before");
  }
}

TEST_F(VerifiedProgram, DivergenceOfAnUnverifiedRunEndsAlike) {
  const auto result = program.run(small_run("single", {"--lr=1e10", "--steps=10"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("training diverged"));
  const json report = program.report();
  EXPECT_EQ(report["runs"][0]["status"], "diverged");
  EXPECT_EQ(report["runs"][0]["verification"]["status"], "reference");
}

TEST_F(VerifiedProgram, AFaultBeforeDivergenceIsStillFound) {
  const auto result =
      program.run(small_run("ddp", {"--lr=1e10", "--verify-steps=20", "--inject=sum"}));
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.out,
              testing::ContainsRegex("\nddp +2 [- 0-9.]+ failed \\([0-9]\\) \\([0-9]\\)"));
  EXPECT_THAT(result.out, HasSubstr(") does NOT agree with one device: "));
}

TEST_F(VerifiedProgram, WeightsThatAreNoNumbersAreNamed) {
  ASSERT_EQ(program.run(small_run("single", {"--save-model=w.st"})).exit_code, 0);
  auto tensors = nn::read_safetensors(program.path("w.st"));
  const auto bias = std::ranges::find(tensors, "fc2.bias", &nn::NamedTensor::name);
  ASSERT_NE(bias, tensors.end());
  bias->values.at(17) = std::nanf("");
  nn::write_safetensors(program.path("w.st"), tensors, true);
  for (const char* strategy : {"single", "ddp"}) {
    const auto result = program.run(small_run(strategy, {"--load-model=w.st", "--force"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("w.st: value 17 of the tensor \"fc2.bias\" is nan"));
  }
}

}  // namespace
}  // namespace ddpbench
