// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that somebody else started, told their place by the variables of torchrun and mpirun.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const std::string kConfig = test::small_config({.steps = 6, .timeout_s = 30});

// A listener on a free port of the loopback interface, as torchrun's agent is.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

int free_port() { return Listener().port(); }

std::vector<Variables> world(int size, int port, const Variables& more = {}) {
  std::vector<Variables> ranks;
  for (int r = 0; r < size; ++r) {
    Variables variables{
        {"RANK", std::to_string(r)},           {"LOCAL_RANK", std::to_string(r)},
        {"WORLD_SIZE", std::to_string(size)},  {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)}, {"DDPBENCH_JOB_SECRET", "0123456789abcdef"}};
    variables.insert(more.begin(), more.end());
    ranks.push_back(variables);
  }
  return ranks;
}

class JoinedWorld : public testing::Test {
 protected:
  JoinedWorld() { program.write("lenet.json", kConfig); }
  std::vector<std::string> arguments(const std::string& strategy,
                                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--strategy=" + strategy, "--config=lenet.json",
                                 "--json=report.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Program program;
};

TEST_F(JoinedWorld, WritesOneVerifiedReportFromRankZero) {
  const auto results = program.run_together(arguments("ddp"), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(results[0].out, HasSubstr("report: report.json"));
  EXPECT_EQ(results[1].out, "");
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["verification"]["status"], "passed");
  EXPECT_EQ(run["step"]["count"], 6);
  EXPECT_EQ(run["devices"].size(), 2u);
}

TEST_F(JoinedWorld, TracesEveryRankInOneFile) {
  const auto results =
      program.run_together(arguments("ddp", {"--trace=trace.json"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json trace = json::parse(program.read("trace.json"));
  EXPECT_THAT(test::trace_problems(trace), testing::IsEmpty());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(test::count_events(trace, rank, "step"), 6);
    EXPECT_GT(test::count_events(trace, rank, "layer"), 0);
    EXPECT_GT(test::count_events(trace, rank, "bucket"), 0);
  }
}

TEST_F(JoinedWorld, TakesTheNextPortWhereTorchrunsAgentListens) {
  const Listener agent;
  const auto results = program.run_together(
      arguments("ddp"),
      world(2, agent.port(),
            {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "job"}}));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(JoinedWorld, CountsServersAsTheLastProcesses) {
  const auto results =
      program.run_together(arguments("ps", {"--servers=1"}), world(3, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["servers"], 1);
}

TEST_F(JoinedWorld, RecordsTheConditionsThatRankZeroCanKnow) {
  const auto results = program.run_together(arguments("ddp"), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json conditions = program.report()["runs"][0]["conditions"];
  ASSERT_TRUE(conditions.is_object());
  EXPECT_TRUE(conditions["notes"].is_array());
  EXPECT_TRUE(conditions["other_load_ratio"].is_null());
  EXPECT_THAT(conditions["other_load_ratio_reason"].get<std::string>(), HasSubstr("rank 0's own"));
  EXPECT_TRUE(conditions["major_page_faults"].is_null());
}

TEST_F(JoinedWorld, RefusesLists) {
  const auto results = program.run_together(arguments("ddp,ps"), world(2, free_port()));
  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("one"));
  }
}

TEST_F(JoinedWorld, RefusesADeviceCountThatIsNotTheWorlds) {
  const auto results = program.run_together(arguments("ddp", {"--gpus=3"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 2);
}

TEST_F(JoinedWorld, TakesAllDevicesToBeTheWorldsAndPlansWithoutTraining) {
  const auto results =
      program.run_together(arguments("ddp", {"--gpus=all", "--dry-run"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(results[0].out, HasSubstr("ddp on 2 devices"));
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(JoinedWorld, NamesTheRankThatFailed) {
  const auto results = program.run_together(arguments("ddp", {"--inject=throw:rank=1,step=4"}),
                                            world(2, free_port()));
  EXPECT_EQ(results[0].exit_code, 4);
  EXPECT_EQ(results[1].exit_code, 4);
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
}

TEST_F(JoinedWorld, ReportsWhatAllRanksHadWhenOneFails) {
  // Steps 0-1 verify, 2 warms up, 3... are timed.
  const auto results = program.run_together(arguments("ddp", {"--inject=throw:rank=1,step=6"}),
                                            world(3, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 4);
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["devices"].size(), 3u);
  EXPECT_GE(run["step"]["count"], 1);
  for (const json& device : run["devices"]) {
    EXPECT_TRUE(device["step_time_median_s"].is_number()) << device;
  }
}

TEST_F(JoinedWorld, ReportsTheOthersWhenOneIsKilled) {
  const auto results = program.run_together(arguments("ddp", {"--inject=kill:rank=1,step=6"}),
                                            world(3, free_port()));
  EXPECT_EQ(results[0].exit_code, 4);
  const json run = program.report()["runs"][0];
  EXPECT_GE(run["step"]["count"], 1);
  EXPECT_EQ(run["devices"].size(), 2u);
  EXPECT_EQ(run["error"]["operation"], "all_reduce");
}

}  // namespace
}  // namespace ddpbench
