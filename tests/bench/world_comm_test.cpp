// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm` among processes that a launcher started: what they measure, what they refuse, and
// how the others end when a rank does. tests/netlab has several hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/runtime/cpu_topology.h"
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
using testing::HasSubstr;

std::vector<std::string> comm_of_ranks(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"comm", "--device=cpu", "--json=report.json", "--timeout=30"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// It runs longer than any test waits.
std::vector<std::string> endless_comm() {
  return comm_of_ranks({"--sizes=1M", "--iterations=100000"});
}

class StartedComm : public testing::Test {
 protected:
  std::vector<ProgramResult> run(int ranks, const std::vector<std::string>& arguments) {
    return program.run_together(arguments, world(ranks, free_port()));
  }
  // Two ranks without an end, of which rank 1, or its agent, gets `signal` when both are there.
  json hit_one(bool rank, int signal, int exit_code) {
    Ranks ranks(program, world(2, free_port()));
    ranks.start_all(endless_comm());
    std::vector<int> ones;
    EXPECT_TRUE(Program::wait_until([&] {
      ones = test::processes_of_rank(program, 1);
      return !ones.empty() && exists("report.json");
    }));
    if (rank) ::kill(ones.front(), signal);
    if (!rank) ranks.signal(1, signal);
    EXPECT_EQ(ranks.finish(0).exit_code, exit_code);
    ranks.finish(1);
    return program.report();
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(program.path(name)); }
  Program program;
};

TEST_F(StartedComm, MeasuresAndVerifiesEveryCollective) {
  const auto ranks =
      run(3, comm_of_ranks({"--op=all", "--sizes=4K,256K", "--iterations=3", "--warmup=1"}));
  for (const ProgramResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_THAT(ranks[0].out, AllOf(HasSubstr("3 ranks (processes), shm on cpu"),
                                  HasSubstr("report: report.json")));
  EXPECT_EQ(ranks[1].out, "");
  const json report = program.report();
  EXPECT_EQ(report["status"], "ok");
  EXPECT_EQ(report["environment"]["launcher"], "environment");
  EXPECT_EQ(report["config"]["command"], "comm");
  EXPECT_EQ(report["config"]["ranks"], json({3}));
  ASSERT_EQ(report["collectives"].size(), 8U * 2 + 1);
  for (const json& row : report["collectives"]) {
    EXPECT_EQ(row["ranks"], 3) << row;
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["iterations"], 3) << row;
    EXPECT_EQ(row["backend"], "shm") << row;
  }
}

TEST_F(StartedComm, MeasuresWorldsOfSomeRanksWithEachAlgorithm) {
  const auto ranks = run(3, comm_of_ranks({"--ranks=2,3", "--all-reduce=ring,direct", "--sizes=64K",
                                           "--iterations=2", "--quiet"}));
  for (const ProgramResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  std::vector<std::string> made;
  const json report = program.report();
  for (const json& row : report["collectives"]) {
    made.push_back(row["all_reduce"].get<std::string>() + row["ranks"].dump());
  }
  EXPECT_THAT(made, testing::ElementsAre("ring2", "direct2", "ring3", "direct3"));
}

TEST_F(StartedComm, RefusesWhatTheProcessesCannotDo) {
  const auto refused = [&](const std::string& option) {
    const auto results = run(2, comm_of_ranks({option}));
    EXPECT_EQ(results[0].exit_code, 2) << option;
    EXPECT_FALSE(exists("report.json"));
    return results[0].err;
  };
  EXPECT_THAT(refused("--ranks=3"), HasSubstr("3 ranks"));
  EXPECT_THAT(refused("--mode=thread"), HasSubstr("each rank that a launcher starts is a process"));
}

TEST_F(StartedComm, TakesNoInterfaceWhereItStartsItsOwnRanks) {
  program.environment["DDPBENCH_INTERFACE"] = "eth0";
  const ProgramResult result = program.run(comm_of_ranks({"--sizes=4K"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--interface=eth0: it is for ranks"));
}

TEST_F(StartedComm, KnowsThatRanksShareACore) {
  program.executable = "/usr/bin/taskset";
  std::vector<std::string> words{"-c", std::to_string(read_cpu_topology().cores.front()),
                                 DDPBENCH_BINARY};
  for (const std::string& word : comm_of_ranks({"--sizes=64K", "--iterations=2", "--force"})) {
    words.push_back(word);
  }
  for (const ProgramResult& rank : run(2, words)) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  const json report = program.report();
  EXPECT_TRUE(report["collectives"][0]["oversubscribed"]);
  EXPECT_TRUE(report["collectives"][0]["bound_busbw_gb_per_s"].is_null());
  EXPECT_TRUE(report.value("memory_bandwidth", json::array()).empty());
}

TEST_F(StartedComm, NamesARankThatIsKilled) {
  const json report = hit_one(true, SIGKILL, 4);
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["signal"], SIGKILL);
  EXPECT_EQ(report["collectives"].size(), 1U);
}

TEST_F(StartedComm, EndsAsInterruptedWhenAnAgentIsAskedToEnd) {
  EXPECT_EQ(hit_one(false, SIGTERM, 130)["status"], "interrupted");
}

}  // namespace
}  // namespace ddpbench
