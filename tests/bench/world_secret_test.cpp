// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Worlds of an external launcher to which nobody gave a secret, and strangers who know all but the
// secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

namespace fs = std::filesystem;
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
  fs::path folder() const {
    return program.directory() / ("ddpbench-" + std::to_string(::geteuid()));
  }
  // The file that rank 0 has left for the others, when it has.
  fs::path await_file() const {
    fs::path found;
    EXPECT_TRUE(Program::wait_until([&] {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder(), ignored)) {
        if (entry.path().extension().empty()) found = entry.path();
      }
      return !found.empty();
    }));
    return found;
  }

  const std::vector<std::string> arguments{"--strategy=ddp", "--config=lenet.json",
                                           "--json=report.json"};
  Program program;
};

TEST_F(StartedWorldSecret, IsMadeByRankZeroForRanksOfTheSameUserAndLeavesNoFile) {
  Ranks ranks(program, world(2, free_port()));
  ranks.start(0, arguments);
  const fs::path file = await_file();
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  ASSERT_EQ(::stat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
  ranks.start(1, arguments);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const ProgramResult result = ranks.finish(rank);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(program.report()["status"], "ok");
  EXPECT_TRUE(fs::is_empty(folder()));
}

// The second world begins while the first still runs.
TEST_F(StartedWorldSecret, KeepsWorldsWithOnePortApart) {
  const int port = free_port();
  Ranks first(program, world(2, port));
  const std::vector<std::string> one{"--strategy=ddp", "--config=lenet.json", "--json=first.json"};
  first.start(0, one);
  await_file();
  first.start(1, one);
  ASSERT_TRUE(Program::wait_until([&] { return fs::is_empty(folder()); })) << "all are here";
  const auto second = program.run_together(
      {"--strategy=ddp", "--config=lenet.json", "--json=second.json"}, world(2, port));
  for (const auto& result : second) EXPECT_EQ(result.exit_code, 0) << result.err;
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(first.finish(rank).exit_code, 0);
  const auto loss = [this](const char* name) {
    return program.report(name)["runs"][0]["epochs"][0]["train_loss"];
  };
  EXPECT_EQ(loss("first.json"), loss("second.json"));
}

TEST_F(StartedWorldSecret, IsNotWhatAnybodyCanDeriveFromTheJob) {
  const int port = free_port();
  auto variables = world(2, port);
  for (auto& rank : variables) rank["TORCHELASTIC_RUN_ID"] = "none";
  Ranks ranks(program, variables);
  ranks.start(0, arguments);
  await_file();
  for (const std::string known : {"torchrun:none:", "environment:none:"}) {
    comm::TcpStoreOptions stranger;
    stranger.port = port;
    stranger.secret = known + std::to_string(port) + ":0";
    try {
      comm::connect_tcp_store(stranger);
      ADD_FAILURE() << stranger.secret << " is let in";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("refuses our secret"));
    }
  }
  ranks.start(1, arguments);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.finish(rank).exit_code, 0);
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

TEST_F(StartedWorldSecret, IsNotLaidWhereOthersCanReach) {
  fs::create_directory(folder());
  ::chmod(folder().c_str(), 0777);
  for (const auto& result : program.run_together(arguments, world(2, free_port()))) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("has mode 0777"));
  }
}

}  // namespace
}  // namespace ddpbench
