// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs over engines that are other projects' libraries, each in a module: Gloo, with ranks that the
// program starts and with those of a launcher, and MPI below a real mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/joined_ranks.h"
#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using testing::HasSubstr;

bool has_module(const char* name) {
  const auto folder = std::filesystem::path(DDPBENCH_BINARY).parent_path().parent_path();
  return std::filesystem::exists(folder / "lib/ddpbench" / name);
}

std::vector<std::string> engine_run(const std::string& strategy, const std::string& backend,
                                    const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--strategy=" + strategy, "--config=lenet.json",
                               "--backend=" + backend, "--device=cpu", "--json=report.json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class OverGloo : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("libddpbench_gloo.so")) GTEST_SKIP() << "built without the Gloo module";
    program.write("lenet.json", test::small_config({.steps = 4, .timeout_s = 30}));
  }
  Program program;
};

TEST_F(OverGloo, StrategiesAreVerifiedAndDpSaysThatItIsOneProcess) {
  const ProgramResult result =
      program.run(engine_run("dp,ddp,ps", "gloo", {"--gpus=2", "--servers=1,2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("dp is one process by nature, so its runs use shm, not gloo"));
  const json report = program.report();
  ASSERT_EQ(report["runs"].size(), 4u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["verification"]["status"], "passed") << run["strategy"];
    EXPECT_EQ(run["backend"], run["strategy"] == "dp" ? "shm" : "gloo") << run["strategy"];
    if (run["strategy"] != "ddp") continue;
    EXPECT_EQ(run["strategy_options"]["all_reduce"], "direct");
  }
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

TEST_F(OverGloo, ALinkThatHealsDelaysAndOneThatDoesNotEndsTheRun) {
  const ProgramResult healed = program.run(
      engine_run("ddp", "gloo", {"--gpus=2", "--inject=drop-link:rank=1,step=3,ms=500"}));
  EXPECT_EQ(healed.exit_code, 0) << healed.err;
  EXPECT_EQ(program.report()["runs"][0]["verification"]["status"], "passed");
  const ProgramResult cut = program.run(engine_run(
      "ddp", "gloo", {"--gpus=2", "--inject=drop-link:rank=1,step=3", "--timeout=2", "--force"}));
  EXPECT_EQ(cut.exit_code, 4) << cut.err;
  const json report = program.report();
  EXPECT_THAT(report["error"]["message"].get<std::string>(),
              testing::ContainsRegex("deadline passed.*wait in all_reduce [0-9]+ .bucket 0."));
  EXPECT_EQ(report["runs"][0]["calls"].size(), 2u);
  const ProgramResult refused = program.run(
      engine_run("ddp", "shm", {"--gpus=2", "--inject=drop-link:rank=1,step=3", "--force"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("ranks of it share memory"));
}

TEST_F(OverGloo, AKilledRankIsNamed) {
  const ProgramResult result =
      program.run(engine_run("ddp", "gloo", {"--gpus=3", "--inject=kill:rank=1,step=2"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
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

class OverMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_module("libddpbench_mpi.so")) GTEST_SKIP() << "built without the MPI module";
    std::istringstream path(::getenv("PATH") ? ::getenv("PATH") : "");
    for (std::string folder; std::getline(path, folder, ':');) {
      if (::access((folder + "/mpirun").c_str(), X_OK) != 0) continue;
      // Open MPI takes what is above its folder for its prefix, and refuses "/", which is that of a
      // /bin that leads to /usr/bin.
      mpirun_ = std::filesystem::canonical(folder) / "mpirun";
      break;
    }
    if (mpirun_.empty()) GTEST_SKIP() << "there is no mpirun in PATH";
    program.environment = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // Open MPI 5
        {"MASTER_PORT", std::to_string(test::free_port())},
        {"TMPDIR", program.directory()}};
    program.write("lenet.json", test::small_config({.steps = 4, .timeout_s = 30}));
  }
  ProgramResult run(int ranks, const std::vector<std::string>& arguments) {
    // mpirun of Open MPI 4.1 now and then locks up in its own end when several ranks fail.
    program.executable = "/usr/bin/timeout";
    std::vector<std::string> all{"--signal=KILL",       "60",           mpirun_, "-n",
                                 std::to_string(ranks), DDPBENCH_BINARY};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return program.run(all);
  }
  Program program;

 private:
  std::string mpirun_;
};

TEST_F(OverMpi, RanksOfMpirunAreVerified) {
  for (const char* strategy : {"ddp", "ps"}) {
    const ProgramResult result = run(3, engine_run(strategy, "mpi", {"--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json run = program.report()["runs"][0];
    EXPECT_EQ(run["verification"]["status"], "passed") << strategy;
    EXPECT_EQ(run["backend"], "mpi");
  }
}

// mpirun asks the others to end as soon as it sees it.
TEST_F(OverMpi, AKilledRankEndsTheJobWithAReport) {
  const ProgramResult result = run(3, engine_run("ddp", "mpi", {"--inject=kill:rank=1,step=2"}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(program.report()["status"], "ok");
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
}

}  // namespace
}  // namespace ddpbench
