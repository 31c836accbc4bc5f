// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of ddp with --devices-per-process: several ranks share a process, and all else is as
// with a process for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/bench/normalized_network.h"
#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

struct Shape {
  int devices, per_process;
};

class SharedProcess : public testing::Test {
 protected:
  SharedProcess() { program.write("lenet.json", test::small_config({})); }

  static std::vector<std::string> shared(Shape shape, std::vector<std::string> more = {}) {
    more.push_back("--gpus=" + std::to_string(shape.devices));
    more.push_back("--devices-per-process=" + std::to_string(shape.per_process));
    more.emplace_back("--batch-size=8");
    return small_run("ddp", more);
  }
  json run(Shape shape, std::vector<std::string> more = {}) {
    more.emplace_back("--force");
    const ProgramResult result = program.run(shared(shape, std::move(more)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return program.report()["runs"][0];
  }
  json error_of(Shape shape, const std::string& fault, int exit_code) {
    const ProgramResult result =
        program.run(shared(shape, {"--inject=" + fault, "--timeout=3", "--force"}));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(program.processes().empty());
    return program.report()["error"];
  }

  Program program;
};

TEST_F(SharedProcess, ComputesWhatOneDeviceComputes) {
  for (const Shape shape : {Shape{2, 2}, Shape{4, 2}, Shape{6, 3}}) {
    const json row = run(shape);
    EXPECT_EQ(row["verification"]["status"], "passed") << shape.devices;
    EXPECT_EQ(row["verification"]["replicas_bit_equal"], true) << shape.devices;
    EXPECT_EQ(row["strategy_options"]["devices_per_process"], shape.per_process);
    ASSERT_EQ(row["devices"].size(), static_cast<std::size_t>(shape.devices));
    for (int rank = 0; rank < shape.devices; ++rank) {
      const json& device = row["devices"][static_cast<std::size_t>(rank)];
      EXPECT_EQ(device["rank"], rank);
      EXPECT_EQ(device["process_rank"], rank / shape.per_process);
      EXPECT_FALSE(device["buckets"].empty());
    }
  }
}

TEST_F(SharedProcess, MovesWhatProcessesMove) {
  const json apart = run({4, 1}), together = run({4, 2});
  EXPECT_FALSE(apart["strategy_options"].contains("devices_per_process"));
  EXPECT_EQ(apart["traffic"], together["traffic"]);
  // The loss of an epoch is a sum over all ranks, each of which computes the same as ever.
  EXPECT_EQ(apart["epochs"][0]["train_loss"], together["epochs"][0]["train_loss"]);
  EXPECT_EQ(apart["epochs"][0]["test_accuracy"], together["epochs"][0]["test_accuracy"]);
}

// Batch norm over the global batch, running statistics of rank 0, and masks by a sample's place.
TEST_F(SharedProcess, IsVerifiedWithCoupledSamplesAndMasks) {
  test::use_normalized_network(program, 4, R"({"name": "drop", "type": "dropout", "p": 0.2},)");
  for (const char* way :
       {"--sync-batch-norm=on", "--broadcast-buffers=on", "--broadcast-buffers=off"}) {
    const json row = run({4, 2}, {way, "--verify-steps=8", "--lr=0.05"});
    EXPECT_EQ(row["verification"]["status"], "passed") << way;
    EXPECT_EQ(row["verification"]["replicas_bit_equal"], true) << way;
  }
}

TEST_F(SharedProcess, IsComparedInOneReport) {
  const ProgramResult result =
      program.run(small_run("dp,ddp,ps", {"--gpus=2", "--devices-per-process=1,2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 4u);  // dp and ps have no such choice
  EXPECT_FALSE(runs[1]["strategy_options"].contains("devices_per_process"));
  EXPECT_EQ(runs[2]["strategy_options"]["devices_per_process"], 2);
  EXPECT_THAT(result.out, HasSubstr("ddp (2 devices a process)"));
  for (const json& row : runs) EXPECT_EQ(row["verification"]["status"], "passed");
}

TEST_F(SharedProcess, NeedsAWholeNumberOfProcesses) {
  for (const Shape shape : {Shape{4, 3}, Shape{2, 4}, Shape{1, 2}}) {
    const ProgramResult result = program.run(shared(shape));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("ddp: " + std::to_string(shape.devices) + " devices"),
                                  HasSubstr("no whole number of processes"),
                                  HasSubstr("--devices-per-process")));
  }
}

TEST_F(SharedProcess, IsNamedWithAllItsRanksWhenItIsKilled) {
  const json of_two = error_of({4, 2}, "kill:rank=3,step=5", 4);
  EXPECT_EQ(of_two["kind"], "signal");
  EXPECT_EQ(of_two["rank"], 2);
  EXPECT_EQ(of_two["signal"], SIGKILL);
  EXPECT_THAT(of_two["message"].get<std::string>(),
              HasSubstr("the process of ranks 2 to 3 was killed by SIGKILL"));
  const json of_one = error_of({2, 2}, "kill:rank=1,step=5", 4);
  EXPECT_EQ(of_one["rank"], 0);
  EXPECT_THAT(of_one["message"].get<std::string>(),
              HasSubstr("the process of ranks 0 to 1 was killed by SIGKILL"));
}

TEST_F(SharedProcess, IsNamedWithAllItsRanksWhenItIsStopped) {
  const json error = error_of({4, 2}, "stop:rank=2,step=5", 4);
  EXPECT_EQ(error["rank"], 2);
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr("the process of ranks 2 to 3 is stopped (SIGSTOP)"));
}

TEST_F(SharedProcess, TellsARanksOwnErrorAsThatRanks) {
  for (const Shape shape : {Shape{4, 2}, Shape{2, 2}}) {
    const json error = error_of(shape, "throw:rank=1,step=5", 4);
    EXPECT_EQ(error["rank"], 1);
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("planted"));
    EXPECT_EQ(error_of(shape, "seed:rank=1", 5)["kind"], "verification");
    EXPECT_EQ(error_of(shape, "missing_bucket:bucket=0", 5)["kind"], "verification");
  }
}

TEST_F(SharedProcess, IsRehearsed) {
  const ProgramResult result = program.run(shared({4, 2}, {"--dry-run"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 run checked: all can start"));
}

// A device needs the same memory however many share its process.
TEST_F(SharedProcess, FitsAsManySamples) {
  const auto fit = [&](const std::string& per_process) {
    const ProgramResult result =
        program.run({"fit", "--config=lenet.json", "--strategy=ddp", "--gpus=4",
                     "--memory-per-device=8MiB", "--format=json", per_process});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false)["fits"];
  };
  EXPECT_EQ(fit("--devices-per-process=2"), fit("--devices-per-process=1"));
  const ProgramResult refused = program.run(
      {"fit", "--config=lenet.json", "--strategy=ddp", "--gpus=4", "--devices-per-process=3"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
}

TEST_F(SharedProcess, HasATraceOfEachRank) {
  run({4, 2}, {"--trace=trace.json", "--trace-steps=2"});
  const json trace = json::parse(program.read("trace.json"));
  EXPECT_THAT(test::trace_problems(trace), IsEmpty());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(test::count_events(trace, rank, "phase", "backward"), 2) << rank;
  }
}

// Ranks of one process launch one after the other. A step, which all ranks take together, lasts at
// least as long as all their launches; those of a process for each could be at the same time.
TEST_F(SharedProcess, HasOneInterpreter) {
  constexpr double kLaunch_ms = 5, kFewestCalls = 14;  // of LeNet-5, forward and backward
  const auto shortest_ms = [&](const std::string& devices) {
    // Few large batches, because evaluation launches too.
    const ProgramResult result = program.run(small_run(
        "ddp", {"--gpus=" + devices, "--devices-per-process=" + devices, "--batch-size=500",
                "--emulate-gil=5000", "--verify-steps=0", "--steps=3", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["phases"].contains("interpreter_wait_s"), devices == "2");
    if (devices == "2") {
      EXPECT_GT(run["why"]["parts"]["interpreter_wait_s"], kLaunch_ms * 1e-3);
    }
    return 1e3 * program.report()["runs"][0]["step"]["time_s"]["min"].get<double>();
  };
  EXPECT_GE(shortest_ms("1"), kFewestCalls * kLaunch_ms);
  EXPECT_GE(shortest_ms("2"), 2 * kFewestCalls * kLaunch_ms);
}

}  // namespace
}  // namespace ddpbench
