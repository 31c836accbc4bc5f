// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs between GPUs over engines that reach host memory only (Gloo, MPI), on the stand-in for
// NVIDIA's libraries (program_test.cpp).
#include <gmock/gmock.h>

#include "tests/bench/engine_program.h"
#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class StagedOverGloo : public test::CudaProgram {
 protected:
  void SetUp() override {
    if (!test::has_module("libddpbench_gloo.so")) GTEST_SKIP() << "built without the Gloo module";
    CudaProgram::SetUp();
    program.environment["STAND_IN_GPUS"] = "4";
  }
};

TEST_F(StagedOverGloo, StrategiesAreVerified) {
  for (const char* backend : {"gloo", "shm+gloo"}) {
    const auto result = program.run(test::small_run(
        "dp,ddp,ps", {"--device=cuda", "--precision=fp32", "--gpus=2", "--servers=1,2", "--force",
                      std::string("--backend=") + backend}));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(std::string("so its runs use nccl, not ") + backend));
    const json report = program.report();
    ASSERT_EQ(report["runs"].size(), 4u);
    for (const json& run : report["runs"]) {
      test::expect_trained_on_cuda(run);
      EXPECT_EQ(run["backend"], run["strategy"] == "dp" ? "nccl" : backend) << run["strategy"];
      if (run["strategy"] != "ddp") continue;
      // On one host shm+gloo is shm.
      EXPECT_EQ(run["strategy_options"]["all_reduce"],
                backend == std::string("gloo") ? "gloo::allreduce (ring)" : "direct");
      EXPECT_EQ(run["strategy_options"]["cuda_graph"], false);
    }
  }
}

// Gloo does not tell when peers arrive: it is taken from when each began.
TEST_F(StagedOverGloo, WaitingForASlowRankCountsAsWaiting) {
  const auto result = program.run(
      test::small_run("ddp", {"--device=cuda", "--precision=fp32", "--gpus=2", "--backend=gloo",
                              "--force", "--inject=slow:rank=1,phase=forward,ms=40"}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_GT(run["phases"]["comm_wait_s"], 0.01) << run["phases"];
}

TEST_F(StagedOverGloo, WhatCannotGoThroughHostMemoryIsRefused) {
  const auto refusal = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--device=cuda", "--gpus=4", "--backend=gloo", "--force"});
    const auto result = program.run(test::small_run("ddp", more));
    EXPECT_EQ(result.exit_code, 3) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal({"--cuda-graph=on"}), HasSubstr("over gloo cannot be recorded"));
}

TEST_F(StagedOverGloo, CommMeasuresAndVerifiesEveryCollective) {
  const std::vector<std::string> comm = {"comm",       "--device=cuda",  "--backend=gloo",
                                         "--op=all",   "--sizes=4K,64K", "--iterations=2",
                                         "--warmup=1", "--ranks=2",      "--json=report.json"};
  const auto result = program.run(comm);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  ASSERT_EQ(report["collectives"].size(), 8u * 2 + 1);
  for (const json& row : report["collectives"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["backend"], "gloo");
    EXPECT_EQ(row["device"], "cuda");
  }
  std::vector<std::string> threads = comm;
  threads.insert(threads.end(), {"--mode=thread", "--force"});
  const auto threaded = program.run(threads);
  EXPECT_EQ(threaded.exit_code, 0) << threaded.err;
  for (const json& row : program.report()["collectives"]) EXPECT_EQ(row["wrong"], 0) << row;
}

TEST_F(StagedOverGloo, AKilledRankIsNamed) {
  const auto result = program.run(
      test::small_run("ddp", {"--device=cuda", "--gpus=3", "--backend=gloo", "--precision=fp32",
                              "--inject=kill:rank=1,step=2", "--timeout=20"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  EXPECT_TRUE(test::Program::wait_until([&] { return program.processes().empty(); }));
}

class StagedOverMpi : public test::OverMpi {
 protected:
  void SetUp() override {
    OverMpi::SetUp();
    program.environment["STAND_IN_GPUS"] = "3";
    test::write_small_configuration(program);
  }
};

TEST_F(StagedOverMpi, RanksOfMpirunAreVerified) {
  for (const std::string strategy : {"ddp", "ps"}) {
    const auto result = run(strategy == "ps" ? 3 : 2,
                            test::small_run(strategy, {"--device=cuda", "--precision=fp32",
                                                       "--backend=mpi", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json trained = program.report()["runs"][0];
    test::expect_trained_on_cuda(trained);
    EXPECT_EQ(trained["backend"], "mpi");
  }
}

}  // namespace
}  // namespace ddpbench
