// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Worlds of an external launcher to which nobody gave a secret, and strangers who know all but the
// secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "parallel/comm/store/store.h"
#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

using test::free_port;
using test::Program;
using test::ProgramResult;
using test::Ranks;
using test::world_without_secret;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StartedWorldSecret : public testing::Test {
 protected:
  StartedWorldSecret() {
    program.write("lenet.json", test::small_config({.steps = 6, .timeout_s = 60}));
  }
  std::vector<test::Variables> world(int size, int port) const {
    return world_without_secret(size, port, program.directory());
  }
  const std::vector<std::string> arguments{"--strategy=ddp", "--config=lenet.json",
                                           "--json=report.json"};
  Program program;
};

TEST_F(StartedWorldSecret, IsMadeByRankZeroForRanksOfTheSameUserAndLeavesNoFile) {
  for (const auto& result : program.run_together(arguments, world(2, free_port()))) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(program.report()["status"], "ok");
  for (const auto& entry : std::filesystem::directory_iterator(program.directory())) {
    EXPECT_THAT(entry.path().filename().string(), Not(testing::StartsWith("ddpbench-")));
  }
}

// The second world begins while the first still runs.
TEST_F(StartedWorldSecret, KeepsWorldsWithOnePortApart) {
  const int port = free_port();
  Ranks first(program, world(2, port));
  first.start_all({"--strategy=ddp", "--config=lenet.json", "--json=first.json"});
  ASSERT_TRUE(Program::wait_until([&] { return !test::processes_of_rank(program, 1).empty(); }));
  const auto second = program.run_together(
      {"--strategy=ddp", "--config=lenet.json", "--json=second.json"}, world(2, port));
  for (const auto& result : second) EXPECT_EQ(result.exit_code, 0) << result.err;
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(first.finish(rank).exit_code, 0);
  const auto loss = [this](const char* name) {
    return program.report(name)["runs"][0]["epochs"][0]["train_loss"];
  };
  EXPECT_EQ(loss("first.json"), loss("second.json"));
}

// Reads from an agent's connection until a message of this kind has come; returns all.
std::string read_until(const FileDescriptor& link, const std::string& kind) {
  std::string heard;
  EXPECT_TRUE(Program::wait_until([&] {
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(link.get(), bytes.data(), bytes.size());
    if (count > 0) heard.append(bytes.data(), static_cast<std::size_t>(count));
    return heard.find("\"kind\":" + kind) != std::string::npos && heard.ends_with('\n');
  })) << heard;
  return heard;
}

// The test is the supervisor of rank 1's agent, and sees all that passes between them.
TEST_F(StartedWorldSecret, OfRunsDoesNotPassBetweenAgents) {
  const int own_port = free_port();
  const std::string given = "0123456789abcdef", nonce = "a nonce of the run";
  const std::string job = given + "\nenvironment:none:" + std::to_string(own_port) + ":0";
  std::mutex mutex;
  FileDescriptor link;
  const auto listener = comm::make_tcp_store_server(
      {.port = own_port, .secret = job, .streams = [&](FileDescriptor socket) {
         const std::lock_guard lock(mutex);
         link = std::move(socket);
       }});
  Ranks ranks(program, test::world(2, own_port));
  ranks.start(1, arguments);
  ASSERT_TRUE(Program::wait_until([&] {
    const std::lock_guard lock(mutex);
    return static_cast<bool>(link);
  }));
  const std::string told = R"({"kind":0,"body":{"device":"cpu","directory":"","secret":""}})"
                           "\n"
                           R"({"kind":2,"body":{"host":"127.0.0.1","interface":"","port":)" +
                           std::to_string(free_port()) + R"(,"nonce":")" + nonce + "\"}}\n";
  ASSERT_EQ(::write(link.get(), told.data(), told.size()), std::ssize(told));
  const std::string heard = read_until(link, "3");
  const std::size_t port = heard.rfind("\"port\":");
  ASSERT_NE(port, std::string::npos) << heard;
  comm::TcpStoreOptions rank{.port = std::stoi(heard.substr(port + 7))};
  for (const std::string& secret : {nonce, given}) {
    rank.secret = secret;
    EXPECT_THROW(comm::connect_tcp_store(rank), CommError) << secret;
  }
  rank.secret = comm::derived_secret(job, nonce);
  EXPECT_EQ(comm::connect_tcp_store(rank)->add("count", 1), 1);
  for (const std::string& secret : {rank.secret, given}) {
    EXPECT_THAT(told + heard, Not(HasSubstr(secret)));
  }
  link.reset();
  EXPECT_EQ(ranks.finish(1).exit_code, 4);
}

// Whoever mistyped it should not have to wait for the deadline.
TEST_F(StartedWorldSecret, SaysWhileItWaitsThatAStoreRefusesIt) {
  auto variables = test::world(2, free_port());
  variables[1]["DDPBENCH_JOB_SECRET"] = "fedcba9876543210";
  auto timed = arguments;
  timed.emplace_back("--timeout=4");
  const auto results = program.run_together(timed, variables);
  EXPECT_EQ(results[1].exit_code, 4);
  EXPECT_THAT(results[1].err, AllOf(HasSubstr("rank 1: waiting for rank 0"),
                                    HasSubstr("refuses this rank's secret (DDPBENCH_JOB_SECRET)")));
  EXPECT_EQ(results[0].exit_code, 4);
  EXPECT_THAT(results[0].err, Not(HasSubstr("refuses")));
}

TEST_F(StartedWorldSecret, IsAskedForWhereRanksMayBeOnOtherHosts) {
  for (const test::Variables& elsewhere : {test::Variables{{"MASTER_ADDR", "192.0.2.1"}},
                                           test::Variables{{"LOCAL_WORLD_SIZE", "1"}}}) {
    auto variables = world(2, free_port());
    for (auto& rank : variables) {
      for (const auto& [name, value] : elsewhere) rank[name] = value;
    }
    for (const auto& result : program.run_together(arguments, variables)) {
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.err, HasSubstr("export DDPBENCH_JOB_SECRET=$("));
    }
  }
}

TEST_F(StartedWorldSecret, IsRefusedWhereItCouldBeGuessed) {
  auto variables = world(2, free_port());
  for (auto& rank : variables) rank["DDPBENCH_JOB_SECRET"] = "tooeasytoguess!";
  for (const auto& result : program.run_together(arguments, variables)) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("has only 15 characters"));
    EXPECT_THAT(result.err, HasSubstr("export DDPBENCH_JOB_SECRET=$("));
  }
}

}  // namespace
}  // namespace ddpbench
