// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Worlds of an external launcher in which a rank, the agent that started it, or rank 0's process
// dies, is asked to end, or never comes: the others end, and say why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/engine_program.h"
#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::free_port;
using test::Program;
using test::ProgramResult;
using test::Ranks;
using test::world;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class StartedWorldFailure : public testing::Test {
 protected:
  StartedWorldFailure() {
    program.write("lenet.json", test::small_config({.steps = 6, .timeout_s = 30}));
  }
  static std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--strategy=ddp", "--config=lenet.json", "--json=report.json"};
    // A later word would be a second value.
    if (!more.empty() && more.front().starts_with("--strategy=")) all.erase(all.begin());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A pair that trains without an end. Returns when both ranks do.
  void start_pair(Ranks& ranks) {
    ranks.start_all(arguments({"--epochs=5000", "--steps=100000", "--verify-steps=0"}));
    EXPECT_TRUE(Program::wait_until([&] {
      return !test::processes_of_rank(program, 0).empty() &&
             !test::processes_of_rank(program, 1).empty();
    }));
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
  }
  Program program;
};

// Steps 0-1 verify, 2 warms up, 3... are timed.
TEST_F(StartedWorldFailure, OfAKilledRankLeavesTheRecordsOfAllAndNamesIt) {
  const auto results =
      program.run_together(arguments({"--inject=kill:rank=1,step=6"}), world(3, free_port()));
  EXPECT_EQ(results[0].exit_code, 4);
  EXPECT_THAT(results[0].out, HasSubstr("report: report.json"));
  for (const std::size_t agent : {1U, 2U}) {
    EXPECT_EQ(results[agent].exit_code, 0) << "it has done what it was told";
    EXPECT_EQ(results[agent].out + results[agent].err, "") << "rank 0's process speaks";
  }
  const json report = program.report(), run = report["runs"][0];
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["signal"], SIGKILL);
  EXPECT_THAT(report["error"]["message"].get<std::string>(),
              HasSubstr("rank 1 was killed by SIGKILL in step 6"));
  EXPECT_EQ(run["error"]["operation"], "all_reduce");
  EXPECT_TRUE(run["error"]["bucket"].is_number());
  EXPECT_GE(run["step"]["count"], 1);
  EXPECT_EQ(run["devices"].size(), 3u) << "the killed rank's, too";
  for (const json& device : run["devices"]) {
    EXPECT_TRUE(device["step_time_median_s"].is_number()) << device;
  }
}

// A rank is the program's own: who ends it has made it fail.
TEST_F(StartedWorldFailure, ByASignalToARankIsThatRanksEnd) {
  for (const int rank : {0, 1}) {
    Ranks ranks(program, world(2, free_port()));
    start_pair(ranks);
    for (const int pid : test::processes_of_rank(program, rank)) ::kill(pid, SIGTERM);
    EXPECT_EQ(ranks.finish(0).exit_code, 4);
    EXPECT_EQ(ranks.finish(1).exit_code, 0);
    const json error = program.report()["error"];
    EXPECT_EQ(error["rank"], rank);
    EXPECT_EQ(error["signal"], SIGTERM);
    expect_nothing_left();
    std::filesystem::remove(program.path("report.json"));
  }
}

// What a launcher started is what a scheduler or a user asks to end.
TEST_F(StartedWorldFailure, ByASignalToAProcessOfTheLauncherIsAnInterruption) {
  for (const std::size_t asked : {0U, 1U}) {
    Ranks ranks(program, world(2, free_port()));
    start_pair(ranks);
    ranks.signal(asked, SIGTERM);
    EXPECT_EQ(ranks.finish(0).exit_code, 130) << asked;
    EXPECT_EQ(ranks.finish(1).exit_code, 0) << asked;
    const json report = program.report();
    EXPECT_EQ(report["status"], "interrupted");
    EXPECT_EQ(report["runs"][0]["status"], "interrupted");
    expect_nothing_left();
    std::filesystem::remove(program.path("report.json"));
  }
}

TEST_F(StartedWorldFailure, OfAnAgentThatIsKilledNamesItsRankAndEndsIt) {
  Ranks ranks(program, world(2, free_port()));
  start_pair(ranks);
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.finish(0).exit_code, 4);
  ranks.finish(1);
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_THAT(report["error"]["message"].get<std::string>(), HasSubstr("the connection is gone"));
  expect_nothing_left();
}

TEST_F(StartedWorldFailure, OfRankZerosProcessIsToldByTheOthers) {
  Ranks ranks(program, world(3, free_port()));
  start_pair(ranks);
  ranks.signal(0, SIGKILL);
  ranks.finish(0);
  for (const std::size_t rank : {1U, 2U}) {
    const ProgramResult other = ranks.finish(rank);
    EXPECT_EQ(other.exit_code, 4);
    EXPECT_EQ(other.err, "ddpbench: rank " + std::to_string(rank) +
                             ": the process of rank 0 has ended, or its host cannot be reached\n");
  }
  EXPECT_EQ(program.report()["status"], "interrupted") << "what was saved stays";
  expect_nothing_left();
}

// Three worlds wait at once.
TEST_F(StartedWorldFailure, OfWhoNeverComesIsToldWhileOthersWaitAndAtTheTimeout) {
  const std::vector<std::string> waiting = arguments({"--timeout=4"});
  Ranks first(program, world(3, free_port()));
  first.start(0, waiting);
  first.start(2, waiting);
  Program second, third;
  for (const Program* other : {&second, &third})
    other->write("lenet.json", program.read("lenet.json"));
  Ranks without_first(second, world(2, free_port())), many(third, world(5000, free_port()));
  without_first.start(1, waiting);
  many.start(0, waiting);

  const ProgramResult zero = first.finish(0);
  EXPECT_EQ(zero.exit_code, 4);
  EXPECT_THAT(zero.err, AllOf(HasSubstr("rank 0: waiting for rank 1 of 3 to come, 3 s of 4 s"),
                              HasSubstr("rank 1 did not come within 4 s")));
  EXPECT_EQ(first.finish(2).exit_code, 4);
  const ProgramResult one = without_first.finish(1);
  EXPECT_EQ(one.exit_code, 4);
  // The line is drawn anew every second, as far as the machine has time for it.
  EXPECT_THAT(one.err, ContainsRegex("rank 1: waiting for rank 0 of 2 to come, [34] s of 4 s"));
  EXPECT_THAT(many.finish(0).err,
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others did not come within 4 s"));
}

// The first of two is the job's, and its end is noticed at once, though ranks are missing.
TEST_F(StartedWorldFailure, OfASecondProcessWithTheSameRankIsItsOwn) {
  const auto all = arguments({"--timeout=100000"});
  const int port = free_port();
  const auto variables = world(3, port);
  Ranks ranks(program, variables);
  ranks.start(0, all);
  const int one = ranks.start(1, all), other = program.start(all, variables[1], ".other");
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  ASSERT_THAT(ended.si_pid, testing::AnyOf(one, other));
  const bool is_first = ended.si_pid == one;
  const ProgramResult refused = is_first ? ranks.finish(1) : program.finish(other, ".other");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("there are two ranks 1 in this job"));
  ::kill(is_first ? other : one, SIGKILL);
  const ProgramResult zero = ranks.finish(0);
  EXPECT_EQ(zero.exit_code, 4);
  EXPECT_THAT(zero.err, HasSubstr("rank 1 on "));
  if (is_first) program.finish(other, ".other");
}

TEST_F(StartedWorldFailure, ProcessesOfDifferentJobsAreRefused) {
  for (const bool of_size : {false, true}) {
    auto variables = world(2, free_port());
    if (of_size) variables[1]["WORLD_SIZE"] = "3";
    Ranks ranks(program, variables);
    ranks.start(0, arguments());
    ranks.start(1, of_size ? arguments() : arguments({"--lr=0.5"}));
    const ProgramResult zero = ranks.finish(0);
    EXPECT_EQ(zero.exit_code, 2);
    EXPECT_THAT(zero.err, of_size ? HasSubstr("WORLD_SIZE is 3 on rank 1 but 2 on rank 0")
                                  : HasSubstr("the ranks have different command lines"));
    ranks.finish(1);
    EXPECT_EQ(program.read("report.json"), "");
  }
}

// ---- below a real mpirun ----

std::string find_mpirun() {
  std::istringstream path(::getenv("PATH") ? ::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return folder + "/mpirun";
  }
  return "";
}

class BelowMpirun : public StartedWorldFailure {
 protected:
  void SetUp() override {
    program.executable = find_mpirun();
    if (program.executable.empty()) GTEST_SKIP() << "there is no mpirun in PATH";
    program.environment = test::mpirun_environment(program);
  }
  ProgramResult run_three(const std::vector<std::string>& more) {
    std::vector<std::string> all{"-n", "3", DDPBENCH_BINARY};
    for (const std::string& word : arguments(more)) all.push_back(word);
    return program.run(all);
  }
};

TEST_F(BelowMpirun, ProcessesFindEachOtherWithoutASecretOfTheUserAndMakeTheMatrix) {
  const ProgramResult result = run_three({"--strategy=single,ddp", "--gpus=1,3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json runs = program.report()["runs"];
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[2]["world_size"], 3);
  EXPECT_EQ(program.report()["environment"]["launcher"], "mpirun");
}

// A rank is its agent's child, so mpirun does not see its end.
TEST_F(BelowMpirun, AReportNamesTheKilledRank) {
  for (const int guilty : {1, 0}) {
    const ProgramResult result =
        run_three({"--force", "--inject=kill:rank=" + std::to_string(guilty) + ",step=6"});
    EXPECT_EQ(result.exit_code, 4) << result.err;
    const json report = program.report();
    EXPECT_EQ(report["status"], "failed") << guilty;
    EXPECT_EQ(report["error"]["rank"], guilty);
    EXPECT_EQ(report["error"]["signal"], SIGKILL);
    EXPECT_EQ(report["runs"][0]["devices"].size(), 3u);
    expect_nothing_left();
    std::filesystem::remove(program.path("report.json"));
  }
}

}  // namespace
}  // namespace ddpbench
