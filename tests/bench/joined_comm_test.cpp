// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm` among ranks that a launcher started: what they measure, what one launch cannot
// do, and how the others end when a rank does. tests/netlab has several hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/runtime/cpu_topology.h"
#include "tests/bench/engine_program.h"
#include "tests/bench/joined_ranks.h"
#include "tests/bench/program.h"

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
std::vector<std::string> endless_comm(const std::string& backend) {
  return comm_of_ranks({"--sizes=1M", "--iterations=100000", "--backend=" + backend});
}

class JoinedComm : public testing::Test {
 protected:
  // Rank r runs with arguments[r].
  std::vector<ProgramResult> run(const std::vector<std::vector<std::string>>& arguments) {
    Ranks ranks(program, world(static_cast<int>(arguments.size()), free_port()));
    for (std::size_t rank = 0; rank < arguments.size(); ++rank) ranks.start(rank, arguments[rank]);
    std::vector<ProgramResult> results;
    for (std::size_t rank = 0; rank < arguments.size(); ++rank) {
      results.push_back(ranks.finish(rank));
    }
    return results;
  }
  std::vector<ProgramResult> run(int ranks, const std::vector<std::string>& arguments) {
    return run(std::vector(static_cast<std::size_t>(ranks), arguments));
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& words) {
    for (const ProgramResult& rank : run(2, comm_of_ranks(more))) {
      EXPECT_EQ(rank.exit_code, 2) << rank.err;
      EXPECT_THAT(rank.err, HasSubstr(words));
    }
    EXPECT_FALSE(exists("report.json"));
  }
  // Two ranks without an end, of which `hit` gets `signal` when both have begun.
  json hit_one(const std::string& backend, std::size_t hit, int signal, int other_exit_code) {
    Ranks ranks(program, world(2, free_port()));
    ranks.start_all(endless_comm(backend));
    EXPECT_TRUE(Program::wait_until([&] { return exists("report.json"); }));
    ::usleep(300'000);  // both are among their calls
    ranks.signal(hit, signal);
    EXPECT_EQ(ranks.finish(1 - hit).exit_code, other_exit_code);
    ranks.finish(hit);
    return program.report();
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(program.path(name)); }
  Program program;
};

TEST_F(JoinedComm, MeasuresAndVerifiesEveryCollective) {
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

TEST_F(JoinedComm, TakesTheAlgorithmThatIsAskedFor) {
  const auto ranks =
      run(2, comm_of_ranks({"--all-reduce=ring", "--sizes=64K", "--iterations=2", "--quiet"}));
  for (const ProgramResult& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_EQ(program.report()["collectives"][0]["all_reduce"], "ring");
}

TEST_F(JoinedComm, RefusesWhatOneLaunchCannotDo) {
  expect_refused({"--ranks=3"}, "a launcher started 2 ranks, and all of them take part");
  expect_refused({"--mode=thread"}, "each of which is a process");
  expect_refused({"--all-reduce=ring,direct"}, "give one algorithm");
  expect_refused({"--op=bcast"}, "--op");
  for (const ProgramResult& rank : run(1, comm_of_ranks({}))) {
    EXPECT_EQ(rank.exit_code, 2);
    EXPECT_THAT(rank.err, HasSubstr("a collective has 2 or more"));
  }
}

TEST_F(JoinedComm, RefusesRanksThatWereAskedForDifferentThings) {
  const auto ranks = run({comm_of_ranks({"--sizes=4K"}), comm_of_ranks({"--sizes=8K"})});
  for (const ProgramResult& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 2) << rank.err;
    EXPECT_THAT(rank.err, HasSubstr("--sizes is [8192] on rank 1 but [4096] on rank 0"));
  }
}

TEST_F(JoinedComm, DoesNotPairWithARankThatTrains) {
  program.write("lenet.json", test::small_config({.steps = 2, .timeout_s = 30}));
  const auto ranks =
      run({comm_of_ranks({}), {"--config=lenet.json", "--strategy=ddp", "--json=other.json"}});
  for (const ProgramResult& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 2) << rank.err;
    EXPECT_THAT(rank.err, HasSubstr("the command is training on rank 1 but comm on rank 0"));
  }
  EXPECT_FALSE(exists("report.json"));
  EXPECT_FALSE(exists("other.json"));
}

TEST_F(JoinedComm, TakesNoInterfaceWhereItStartsItsOwnRanks) {
  program.environment["DDPBENCH_INTERFACE"] = "eth0";
  const ProgramResult result = program.run(comm_of_ranks({"--sizes=4K"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--interface=eth0: it is for ranks"));
}

TEST_F(JoinedComm, TakesFromAVariableOnlyAsManyRanksAsWereStarted) {
  program.environment["DDPBENCH_RANKS"] = "3";
  expect_refused({}, "--ranks=3: a launcher started 2 ranks");
}

TEST_F(JoinedComm, KnowsWhichRanksShareACore) {
  program.executable = "/usr/bin/taskset";
  const auto bound_to = [](const std::string& cores) {
    std::vector<std::string> arguments{"-c", cores, DDPBENCH_BINARY};
    for (const std::string& word : comm_of_ranks({"--sizes=64K", "--iterations=2", "--force"})) {
      arguments.push_back(word);
    }
    return arguments;
  };
  const std::vector<int> cores = read_cpu_topology().cores;
  const std::string one = std::to_string(cores.front());
  for (const ProgramResult& rank : run({bound_to(one), bound_to(one)})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
  }
  const json report = program.report();
  EXPECT_TRUE(report["collectives"][0]["oversubscribed"]);
  EXPECT_TRUE(report["collectives"][0]["bound_busbw_gb_per_s"].is_null());
  EXPECT_TRUE(report.value("memory_bandwidth", json::array()).empty());
  if (cores.size() < 2) return;
  // One is bound to one core and the other to another.
  for (const ProgramResult& rank : run({bound_to(one), bound_to(std::to_string(cores.back()))})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
  }
  EXPECT_FALSE(program.report()["collectives"][0]["oversubscribed"]);
}

TEST_F(JoinedComm, NamesARankThatIsKilled) {
  for (const std::size_t hit : {0U, 1U}) {
    const json report = hit_one("shm", hit, SIGKILL, 4);
    EXPECT_EQ(report["status"], "failed");
    EXPECT_EQ(report["error"]["rank"], hit);
    EXPECT_EQ(report["collectives"].size(), 1U);
    std::filesystem::remove(program.path("report.json"));
  }
}

TEST_F(JoinedComm, EndsAsInterruptedWhenARankIsAskedToEnd) {
  const json report = hit_one("shm", 1, SIGTERM, 130);
  EXPECT_EQ(report["status"], "interrupted");
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["signal"], SIGTERM);
}

}  // namespace
}  // namespace ddpbench
