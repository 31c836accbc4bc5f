// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs over engines that are other projects' libraries, each in a module: Gloo, with ranks that the
// program starts and with those of a launcher, and MPI below a real mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/engine_program.h"
#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::OverGloo;
using test::OverMpi;
using test::Program;
using test::ProgramResult;
using testing::HasSubstr;

std::vector<std::string> engine_run(const std::string& strategy, const std::string& backend,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--strategy=" + strategy, "--config=lenet.json",
                               "--backend=" + backend, "--device=cpu", "--json=report.json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(OverGloo, StrategiesAreVerifiedAndDpSaysThatItIsOneProcess) {
  const ProgramResult result =
      program.run(engine_run("dp,ddp,ps,zero1,zero2,zero3,localsgd", "gloo",
                             {"--gpus=2", "--servers=1,2", "--sync-every=1", "--unit-mb=0.05"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("dp is one process by nature, so its runs use shm, not gloo"));
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 8u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["verification"]["status"], "passed") << run["strategy"];
    EXPECT_EQ(run["backend"], run["strategy"] == "dp" ? "shm" : "gloo") << run["strategy"];
    const bool is_sharded = run["strategy"].get<std::string>().starts_with("zero");
    EXPECT_EQ(run["strategy_options"].contains("reduce_scatter"), is_sharded) << run["strategy"];
    if (run["strategy"] != "ddp") continue;
    EXPECT_EQ(run["strategy_options"]["all_reduce"], "gloo::allreduce (ring)");
  }
  EXPECT_THAT(result.out, HasSubstr(") gloo has no reduce-scatter: each is an all-reduce, of"));
}

TEST_F(OverGloo, RanksThatShareAProcessAreVerified) {
  for (const char* devices : {"--gpus=2", "--gpus=4"}) {
    const ProgramResult result = program.run(engine_run(
        "ddp", "gloo", {devices, "--batch-size=8", "--devices-per-process=2", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["verification"]["status"], "passed") << devices;
    EXPECT_EQ(run["backend"], "gloo");
  }
}

TEST_F(OverGloo, RanksOfALauncherAreVerified) {
  for (const char* strategy : {"ddp", "ps"}) {
    const auto results = program.run_together(engine_run(strategy, "gloo", {"--force"}),
                                              test::world(3, test::free_port()));
    for (const ProgramResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["verification"]["status"], "passed") << strategy;
    EXPECT_EQ(run["backend"], "gloo");
  }
}

// A server takes the pushes of so many workers a few at a time.
TEST_F(OverGloo, ServersOfManyWorkersAreVerifiedAndNameTheOneThatStalls) {
  for (const char* servers : {"--servers=1", "--servers=2"}) {
    const ProgramResult result = program.run(
        engine_run("ps", "gloo", {"--gpus=5", servers, "--global-batch-size=40", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(program.report()["runs"][0]["verification"]["status"], "passed") << servers;
  }
  const ProgramResult stalled =
      program.run(engine_run("ps", "gloo",
                             {"--gpus=6", "--global-batch-size=48", "--force", "--timeout=3",
                              "--inject=stall:rank=4,step=2"}));
  EXPECT_EQ(stalled.exit_code, 4) << stalled.err;
  const json report = program.report();
  EXPECT_EQ(report["error"]["rank"], 4) << report["error"];
}

TEST_F(OverGloo, WithinHostsAStallIsNamedWithTheCallsOfAll) {
  for (const std::string strategy : {"ddp", "ps"}) {
    const ProgramResult result = program.run(
        engine_run(strategy, "shm+gloo",
                   {"--gpus=2", "--inject=stall:rank=1,step=2", "--timeout=2", "--force"}));
    EXPECT_EQ(result.exit_code, 4) << result.err;
    const json report = program.report();
    EXPECT_EQ(report["error"]["rank"], 1) << report["error"];
    const json& calls = report["runs"][0]["calls"];
    ASSERT_EQ(calls.size(), strategy == "ddp" ? 2u : 3u) << report["error"];
    EXPECT_TRUE(calls[1]["pending"].is_null()) << calls;
    const json& waiting = calls.back()["pending"].is_null() ? calls[0] : calls.back();
    EXPECT_EQ(waiting["pending"]["operation"], strategy == "ddp" ? "all_reduce" : "recv") << calls;
  }
}

TEST_F(OverGloo, AKilledRankIsNamed) {
  const ProgramResult result =
      program.run(engine_run("ddp", "gloo", {"--gpus=3", "--inject=kill:rank=1,step=2"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
}

TEST_F(OverGloo, CommNamesTheAllReduce) {
  const ProgramResult result =
      program.run({"comm", "--device=cpu", "--backend=gloo", "--ranks=4", "--sizes=4K,512K",
                   "--iterations=2", "--warmup=1", "--json=report.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json rows = program.report()["collectives"];
  ASSERT_EQ(rows.size(), 2u);
  for (const json& row : rows) EXPECT_EQ(row["all_reduce"], "gloo::allreduce (ring)");
}

TEST_F(OverGloo, AnAlgorithmOfOursIsRefused) {
  const ProgramResult refused =
      program.run(engine_run("ddp", "gloo", {"--gpus=2", "--all-reduce=ring"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("gloo chooses its own algorithms"));
}

TEST_F(OverGloo, CommMeasuresAndVerifiesEveryCollective) {
  for (const char* mode : {"process", "thread"}) {
    const ProgramResult result = program.run(
        {"comm", "--device=cpu", "--backend=gloo", "--op=all", "--sizes=4K,512K", "--iterations=3",
         "--warmup=1", "--json=report.json", "--force", std::string("--mode=") + mode});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    ASSERT_EQ(report["collectives"].size(), 8u * 2 + 1);
    for (const json& row : report["collectives"]) {
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_EQ(row["backend"], "gloo");
    }
  }
}

TEST_F(OverMpi, RanksOfMpirunAreVerified) {
  for (const char* strategy : {"ddp", "ps"}) {
    const ProgramResult result = run(3, engine_run(strategy, "mpi", {"--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["verification"]["status"], "passed") << strategy;
    EXPECT_EQ(run["backend"], "mpi");
  }
}

TEST_F(OverMpi, CommMeasuresAndVerifiesEveryCollective) {
  for (const char* backend : {"mpi", "shm+mpi"}) {
    const ProgramResult result =
        run(3, {"comm", std::string("--backend=") + backend, "--op=all", "--sizes=4K,256K",
                "--iterations=3", "--warmup=1", "--json=report.json", "--force"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    EXPECT_EQ(report["environment"]["launcher"], "mpirun");
    ASSERT_EQ(report["collectives"].size(), 8u * 2 + 1);
    for (const json& row : report["collectives"]) {
      EXPECT_EQ(row["wrong"], 0) << row;
      EXPECT_EQ(row["ranks"], 3) << row;
      EXPECT_EQ(row["backend"], backend) << row;
    }
  }
}

TEST_F(OverMpi, ARankOfCommThatIsKilledIsNamed) {
  const ProgramResult result =
      run(2,
          {"comm", "--backend=mpi", "--sizes=1M", "--iterations=100000", "--timeout=20",
           "--json=report.json"},
          [&] {
            std::vector<int> ones;
            EXPECT_TRUE(Program::wait_until([&] {
              ones = test::processes_of_rank(program, 1);
              return !ones.empty() && std::filesystem::exists(program.path("report.json"));
            }));
            for (const int pid : ones) ::kill(pid, SIGKILL);
          });
  EXPECT_NE(result.exit_code, 0) << "mpirun has a code of its own where agents end without MPI";
  expect_blame(1);
}

// A rank is its agent's child, so mpirun does not see its end.
TEST_F(OverMpi, ARankThatIsKilledOrStoppedIsNamed) {
  for (const char* fault : {"--inject=kill:rank=1,step=2", "--inject=stop:rank=1,step=2"}) {
    const ProgramResult result = run(3, engine_run("ddp", "mpi", {fault, "--timeout=3"}));
    EXPECT_NE(result.exit_code, 0);
    expect_blame(1);
    std::filesystem::remove(program.path("report.json"));
  }
}

}  // namespace
}  // namespace ddpbench
