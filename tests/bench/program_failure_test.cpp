// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that die, throw, stall or lie, and users who interrupt: reports name them, and no process
// or file is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::HasSubstr;

const std::string kFailingConfig = test::small_config({.steps = 20});

// There may be no process (and so no sockets), no named shared memory, and no half-written file.
void expect_nothing_left(const Program& program) {
  EXPECT_TRUE(program.processes().empty());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(entry.path().filename().string().find("ddpbench"), std::string::npos) << entry;
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(program.directory())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("std") && !name.starts_with(".")) files.insert(name);
  }
  EXPECT_THAT(files, testing::ElementsAre("lenet.json", "report.json"));
}

class FailingProgram : public testing::TestWithParam<std::string> {
 protected:
  FailingProgram() { program.write("lenet.json", kFailingConfig); }
  // Returns the report's first error; checks the exit code.
  json failed_run(const std::vector<std::string>& more, int exit_code) {
    const auto result = program.run(small_run(GetParam(), more));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    expect_nothing_left(program);
    const json report = program.report();
    EXPECT_EQ(report["status"], "failed");
    return report;
  }
  Program program;
};

using RankFailure = FailingProgram;

TEST_P(RankFailure, AKilledRankIsNamedWithItsSignalAndStep) {
  const json error = failed_run({"--inject=kill:rank=1,step=5"}, 4)["error"];
  EXPECT_EQ(error["kind"], "signal");
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["signal"], SIGKILL);
  EXPECT_EQ(error["step"], 5);
}

// Step 1000 is beyond the longest warm-up, too.
TEST(RankFailureOfNoRun, IsRefused) {
  Program program;
  program.write("lenet.json", kFailingConfig);
  const auto expect_refused = [&](const std::string& strategy, const std::string& fault) {
    const auto result = program.run(small_run(strategy, {fault}));
    EXPECT_EQ(result.exit_code, 2) << strategy;
    EXPECT_THAT(result.err, HasSubstr(fault + " strikes in no run"));
  };
  expect_refused("ddp", "--inject=kill:rank=2,step=5");
  expect_refused("ddp", "--inject=kill:rank=1,step=1000");
  expect_refused("dp", "--inject=kill:rank=1,step=5");  // it is one process
  expect_refused("ps", "--inject=kill:rank=2,step=5");  // a server takes no steps
  expect_refused("single", "--inject=sum");
}

TEST(RankFailureInAHook, IsNamedAsWithout) {
  Program program;
  program.write("lenet.json", kFailingConfig);
  for (const char* hook : {"bf16", "topk:1", "powersgd:1"}) {
    const auto result = program.run(small_run(
        "ddp", {"--inject=kill:rank=1,step=5", "--force", std::string("--comm-hook=") + hook}));
    EXPECT_EQ(result.exit_code, 4) << result.err;
    const json error = program.report()["error"];
    EXPECT_EQ(error["rank"], 1);
    EXPECT_EQ(error["signal"], SIGKILL);
    EXPECT_EQ(error["step"], 5);
  }
}

// The servers could go on without it, and the user could not.
TEST(RankFailureBesideABackupWorker, IsNamedAsWithout) {
  Program program;
  program.write("lenet.json", kFailingConfig);
  const auto result = program.run(
      small_run("ps", {"--gpus=3", "--backup-workers=1", "--inject=kill:rank=1,step=5"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json error = program.report()["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["signal"], SIGKILL);
  EXPECT_EQ(error["step"], 5);
  expect_nothing_left(program);
}

TEST_P(RankFailure, AStoppedRankIsNamedAfterTheTimeout) {
  const json error = failed_run({"--inject=stop:rank=1,step=5", "--timeout=2"}, 4)["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["step"], 5);
  // The others waited for it in this operation.
  EXPECT_THAT(error["operation"].get<std::string>(), GetParam() == "ddp"
                                                         ? testing::MatchesRegex("all_reduce")
                                                         : testing::MatchesRegex("send|recv"));
}

TEST_P(RankFailure, AThrowingRankIsNamedWithItsMessage) {
  const json error = failed_run({"--inject=throw:rank=1,step=5"}, 4)["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("planted"));
}

TEST_P(RankFailure, AStalledRankIsNamedWithTheCallsOfAll) {
  const json report = failed_run({"--inject=stall:rank=1,step=5", "--timeout=2"}, 4);
  EXPECT_EQ(report["error"]["rank"], 1) << report["error"];
  const bool ddp = GetParam() == "ddp";
  EXPECT_THAT(report["error"]["message"].get<std::string>(), HasSubstr("rank 1 stands still"));
  const json& calls = report["runs"][0]["calls"];
  ASSERT_EQ(calls.size(), ddp ? 2u : 3u);
  if (!ddp) return;
  EXPECT_TRUE(calls[1]["pending"].is_null());
  EXPECT_EQ(calls[0]["pending"]["operation"], "all_reduce");
  EXPECT_EQ(calls[0]["pending"]["bucket"], 0);
  EXPECT_EQ(report["error"]["operation"], "all_reduce");
  EXPECT_EQ(report["error"]["bucket"], 0);
  EXPECT_EQ(calls[0]["pending"]["number"].get<int>(),
            calls[1]["completed"]["number"].get<int>() + 1);
}

TEST_P(RankFailure, TheReportKeepsTheStepsUntilThen) {
  // Steps 0-1 verify, 2 warms up, 3... are timed.
  const json run = failed_run({"--inject=kill:rank=0,step=8"}, 4)["runs"][0];
  EXPECT_GE(run["step"]["count"], 4);
  EXPECT_LE(run["step"]["count"], 5);
}

INSTANTIATE_TEST_SUITE_P(, RankFailure, testing::Values("ddp", "ps"),
                         [](const auto& p) { return p.param; });

// Of strategies with other collectives: reduce-scatter, all-gather, an average of weights.
using CollectiveFailure = FailingProgram;

TEST_P(CollectiveFailure, AKilledRankIsNamedWithItsSignalAndStep) {
  const json error = failed_run({"--inject=kill:rank=1,step=5"}, 4)["error"];
  EXPECT_EQ(error["signal"], SIGKILL);
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["step"], 5);
}

TEST_P(CollectiveFailure, AStoppedRankIsNamedAfterTheTimeout) {
  const json error = failed_run({"--inject=stop:rank=1,step=5", "--timeout=2"}, 4)["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_EQ(error["step"], 5);
  EXPECT_THAT(
      error["operation"].get<std::string>(),
      testing::MatchesRegex(GetParam() == "localsgd" ? "all_reduce" : "reduce_scatter|all_gather"));
}

INSTANTIATE_TEST_SUITE_P(, CollectiveFailure, testing::Values("zero1", "zero3", "localsgd"),
                         [](const auto& p) { return p.param; });

// A strategy of one process has no peers: only the supervisor notices.
using ProcessFailure = FailingProgram;

TEST_P(ProcessFailure, IsNamedWhenItIsKilled) {
  const json error = failed_run({"--inject=kill:rank=0,step=5"}, 4)["error"];
  EXPECT_EQ(error["rank"], 0);
  EXPECT_EQ(error["signal"], SIGKILL);
  EXPECT_EQ(error["step"], 5);
}

TEST_P(ProcessFailure, IsEndedWhenItStops) {
  const json error = failed_run({"--inject=stop:rank=0,step=5", "--timeout=2"}, 4)["error"];
  EXPECT_EQ(error["rank"], 0);
  EXPECT_EQ(error["step"], 5);
}

TEST_P(ProcessFailure, IsNamedWhenItThrows) {
  const json error = failed_run({"--inject=throw:rank=0,step=5"}, 4)["error"];
  EXPECT_EQ(error["rank"], 0);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("planted"));
}

INSTANTIATE_TEST_SUITE_P(, ProcessFailure, testing::Values("single", "dp"),
                         [](const auto& p) { return p.param; });

using WrongResult = FailingProgram;

TEST_P(WrongResult, AMissingBucketIsExitFive) {
  const json report = failed_run({"--inject=missing_bucket:bucket=0"}, 5);
  EXPECT_EQ(report["runs"][0]["verification"]["status"], "failed");
  EXPECT_EQ(report["error"]["kind"], "verification");
}

TEST_P(WrongResult, ASumForAnAverageIsExitFive) {
  const json report = failed_run({"--inject=sum"}, 5);
  EXPECT_EQ(report["runs"][0]["verification"]["status"], "failed");
}

TEST_P(WrongResult, OneRanksStaleParameterIsExitFive) {
  const json report = failed_run({"--inject=stale:rank=1,step=1"}, 5);
  EXPECT_EQ(report["runs"][0]["verification"]["status"], "failed");
  EXPECT_THAT(report["runs"][0]["injected"].get<std::string>(), HasSubstr("stale"));
}

INSTANTIATE_TEST_SUITE_P(, WrongResult, testing::Values("dp", "ddp", "ps"),
                         [](const auto& p) { return p.param; });

struct Interruption {
  std::string strategy;
  int signal;
  std::size_t processes;  // supervisor and ranks
};

void PrintTo(const Interruption& i, std::ostream* out) { *out << i.strategy << " by " << i.signal; }

class Interrupt : public testing::TestWithParam<Interruption> {
 protected:
  Program program;
};

TEST_P(Interrupt, InMidEpochLeavesAPartialReportAndNoProcess) {
  program.write("lenet.json", kFailingConfig);
  const auto result =
      program.run(small_run(GetParam().strategy,
                            {"--epochs=5000", "--steps=100000", "--timeout=0", "--verify-steps=0"}),
                  [&](int pid) {
                    EXPECT_TRUE(Program::wait_until(
                        [&] { return program.processes().size() >= GetParam().processes; }));
                    ::usleep(3'000'000);  // well past set-up, into the epoch
                    ::kill(pid, GetParam().signal);
                  });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  expect_nothing_left(program);
  const json report = program.report();
  EXPECT_EQ(report["status"], "interrupted");
  EXPECT_THAT(result.out, testing::HasSubstr("--resume="));
  const json run = report["runs"].back();
  EXPECT_EQ(run["status"], "interrupted");
  EXPECT_EQ(run["strategy"], GetParam().strategy);
  EXPECT_FALSE(run["devices"].empty());
}

INSTANTIATE_TEST_SUITE_P(
    , Interrupt,
    testing::Values(Interruption{"single", SIGINT, 2}, Interruption{"dp", SIGTERM, 2},
                    Interruption{"ddp", SIGINT, 3}, Interruption{"ddp", SIGTERM, 3},
                    Interruption{"ps", SIGINT, 4}),
    [](const auto& p) {
      return p.param.strategy + (p.param.signal == SIGINT ? "ByCtrlC" : "ByTerminate");
    });

TEST(Supervisor, KilledItselfTakesItsRanksAlong) {
  Program program;
  program.write("lenet.json", kFailingConfig);
  program.run(small_run("ddp", {"--steps=100000", "--epochs=5000"}), [&](int pid) {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
    ::kill(pid, SIGKILL);
  });
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
}

// Rank 1 is a worker, rank 2 a server.
TEST(AsynchronousServers, EndTheRunWhenARankIsKilled) {
  for (const int rank : {1, 2}) {
    Program program;
    program.write("lenet.json", kFailingConfig);
    const auto result = program.run(
        small_run("ps", {"--ps-mode=async", "--epochs=5000", "--steps=100000", "--timeout=20",
                         "--verify-steps=0"}),
        [&](int) {
          EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 4; }));
          ::usleep(2'000'000);  // well past set-up, into the epoch
          std::vector<int> ranks = program.processes();
          std::ranges::sort(ranks);
          ::kill(ranks.at(static_cast<std::size_t>(1 + rank)), SIGKILL);  // after the supervisor
        });
    EXPECT_EQ(result.exit_code, 4) << result.err;
    expect_nothing_left(program);
    EXPECT_EQ(program.report()["error"]["rank"], rank);
    EXPECT_EQ(program.report()["error"]["signal"], SIGKILL);
  }
}

TEST(Runs, GoOnAfterOneThatFailed) {
  Program program;
  program.write("lenet.json", kFailingConfig);
  // Step 100 exists in neither run; rank 1 exists in ddp only.
  const auto result = program.run(small_run("ddp,dp", {"--inject=kill:rank=1,step=4"}));
  EXPECT_EQ(result.exit_code, 4);
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["status"], "failed");
  EXPECT_EQ(runs[1]["status"], "ok");
}

}  // namespace
}  // namespace ddpbench
