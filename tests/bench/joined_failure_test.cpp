// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a joined world that die, stop or never come: the others end, and a report names the
// guilty one. What ranks wrote is in memory that outlives them, so nothing here depends on how fast
// survivors are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/comm/store/store.h"
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
using testing::ContainsRegex;
using testing::HasSubstr;

class JoinedFailure : public testing::Test {
 protected:
  JoinedFailure() {
    program.write("lenet.json", test::small_config({.steps = 6, .timeout_s = 30}));
  }
  // Two ranks, of which `asked` is asked to end when `reached`.
  void expect_interruption(std::size_t asked, std::vector<std::string> more,
                           const std::function<bool()>& reached) {
    more.insert(more.end(), {"--epochs=1000", "--steps=100000"});
    Ranks ranks(program, world(2, free_port()));
    ranks.start_all(arguments(more));
    EXPECT_TRUE(Program::wait_until(reached));
    ranks.signal(asked, SIGTERM);
    for (const std::size_t rank : {0U, 1U}) EXPECT_EQ(ranks.finish(rank).exit_code, 130) << rank;
    const json report = program.report();
    EXPECT_EQ(report["status"], "interrupted");
    EXPECT_EQ(report["error"]["rank"], asked);
    EXPECT_EQ(report["error"]["signal"], SIGTERM);
    EXPECT_EQ(report["runs"][0]["status"], "interrupted");
    EXPECT_EQ(report["error"]["message"],
              "rank " + std::to_string(asked) + " was asked to end by SIGTERM");
  }
  static std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--strategy=ddp", "--config=lenet.json", "--json=report.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Looks into the store of a world that still waits for ranks.
  static std::shared_ptr<comm::Store> look_into(int port) {
    comm::TcpStoreOptions options;
    options.port = port;
    options.secret = "0123456789abcdef\nenvironment:none:" + std::to_string(port) + ":0";
    return comm::connect_tcp_store(options);
  }
  Program program;
};

// Steps 0-1 verify, 2 warms up, 3... are timed.
TEST_F(JoinedFailure, OfAKilledRankLeavesTheRecordsOfAllAndNamesIt) {
  const auto results =
      program.run_together(arguments({"--inject=kill:rank=1,step=6"}), world(3, free_port()));
  EXPECT_EQ(results[0].exit_code, 4);
  EXPECT_EQ(results[1].exit_code, 128 + SIGKILL);
  EXPECT_EQ(results[2].exit_code, 4);
  EXPECT_THAT(results[0].out, HasSubstr("report: report.json"));
  const json report = program.report();
  EXPECT_EQ(report["error"]["rank"], 1);
  const json run = report["runs"][0];
  EXPECT_EQ(run["error"]["rank"], 1);
  EXPECT_EQ(run["error"]["operation"], "all_reduce");
  EXPECT_GE(run["step"]["count"], 1);
  EXPECT_EQ(run["devices"].size(), 3u) << "the killed rank's, too";
}

// The ranks are not each other's children, so it depends on the system whether they learn the
// signal; what they say is right in any case.
TEST_F(JoinedFailure, OfAKilledRankSaysHowItEndedIfThatIsKnown) {
  program.run_together(arguments({"--inject=kill:rank=1,step=6"}), world(2, free_port()));
  const json error = program.report()["error"];
  if (error["kind"] == "signal") {
    EXPECT_EQ(error["signal"], SIGKILL);
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("was killed by SIGKILL in step 6"));
  } else {
    EXPECT_EQ(error["kind"], "exit");
    EXPECT_TRUE(error["signal"].is_null());
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("how it ended is known to its launcher only"));
  }
}

// A user, a launcher or a scheduler ends a rank, or all: the run was interrupted, and the report
// says who was asked.
TEST_F(JoinedFailure, BySignalsThatAskARankToEndIsAnInterruptionThatNamesIt) {
  for (const std::size_t asked : {0U, 1U}) {
    // The third process computes the reference, so all ranks have agreed.
    expect_interruption(asked, {"--force"}, [&] { return program.processes().size() >= 3; });
  }
}

// In training the ranks see the end of the one that was asked in a collective, at once.
TEST_F(JoinedFailure, BySignalsInTrainingIsAnInterruptionToo) {
  for (const std::size_t asked : {0U, 1U}) {
    std::filesystem::remove(program.path("report.json"));
    expect_interruption(asked, {"--verify-steps=0"}, [&] {
      if (!std::filesystem::exists(program.path("report.json"))) return false;  // not agreed
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // then most likely in training
      return true;
    });
  }
}

TEST_F(JoinedFailure, OfRankZeroBeforeAllHaveJoinedLeavesAReportByAnother) {
  const int port = free_port();
  Ranks ranks(program, world(4, port));
  for (const std::size_t rank : {0U, 1U, 2U}) ranks.start(rank, arguments({"--timeout=100000"}));
  {
    const auto store = look_into(port);
    for (const char* const rank : {"1", "2"})
      store->get(std::string("joined/roll/said/") + rank, 60);
  }
  ranks.signal(0, SIGKILL);
  ranks.finish(0);
  int reports = 0;
  for (const std::size_t rank : {1U, 2U}) {
    const ProgramResult result = ranks.finish(rank);
    EXPECT_EQ(result.exit_code, 4);
    if (result.out.find("report: report.json") != std::string::npos) ++reports;
  }
  EXPECT_EQ(reports, 1);
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 0);
  EXPECT_EQ(report["runs"][0]["world_size"], 4);
}

TEST_F(JoinedFailure, OfARankZeroThatNeverComesLeavesAReport) {
  Ranks ranks(program, world(2, free_port()));
  ranks.start(1, arguments({"--timeout=4"}));
  const ProgramResult result = ranks.finish(1);
  EXPECT_EQ(result.exit_code, 4);
  // The line is drawn anew every second, as far as the machine has time for it.
  EXPECT_THAT(result.err, ContainsRegex("rank 1: waiting for rank 0 of 2 to come, [34] s of 4 s"));
  const json error = program.report()["error"];
  EXPECT_EQ(error["rank"], 0);
  EXPECT_EQ(error["kind"], "timeout");
  EXPECT_TRUE(error.value("host", json()).is_null()) << "nobody knows where it is";
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("rank 0 did not come"));
}

// Rank 0 computes the reference, here for ever: its process is stopped.
TEST_F(JoinedFailure, OfARankThatDiesWhileRankZeroComputesTheReferenceIsNoticedAtOnce) {
  Ranks ranks(program, world(2, free_port()));
  std::set<int> own;
  for (const std::size_t rank : {0U, 1U})
    own.insert(ranks.start(rank, arguments({"--timeout=100000"})));
  int reference = 0;
  EXPECT_TRUE(Program::wait_until([&] {
    for (const int pid : program.processes()) {
      if (!own.contains(pid)) reference = pid;
    }
    return reference != 0 && ::kill(reference, SIGSTOP) == 0;
  }));
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.finish(0).exit_code, 4);
  EXPECT_EQ(program.report()["error"]["rank"], 1);
  EXPECT_TRUE(Program::wait_until([&] { return ::kill(reference, 0) != 0; }));
}

// Rank 1 is held while ranks join, so rank 0 waits for its plan with the channels of all ranks
// made.
TEST_F(JoinedFailure, OfARankThatDiesBeforeItHasPlannedIsNamedByRankZero) {
  const int port = free_port();
  Ranks ranks(program, world(3, port));
  const std::vector<std::string> all = arguments({"--timeout=100000", "--device=cpu"});
  for (const std::size_t rank : {0U, 1U}) ranks.start(rank, all);
  const auto store = look_into(port);
  store->get("joined/roll/said/1", 60);
  ranks.signal(1, SIGSTOP);
  ranks.start(2, all);
  store->get("joined/plan/said/2", 60);
  ranks.signal(1, SIGKILL);
  for (const std::size_t rank : {0U, 2U}) EXPECT_EQ(ranks.finish(rank).exit_code, 4) << rank;
  EXPECT_EQ(program.report()["error"]["rank"], 1);
}

TEST_F(JoinedFailure, OfSeveralWorldsWithOneReportIsToldBeforeTheyTrain) {
  constexpr std::size_t kWorlds = 4;
  std::vector<test::Variables> all;
  std::vector<test::Listener> ports(kWorlds);  // of which none is taken twice
  for (const test::Listener& port : ports) {
    for (auto& variables :
         world(2, port.port(),
               {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "job"}})) {
      all.push_back(variables);
    }
  }
  const auto results = program.run_together(arguments({"--epochs=20"}), all);
  int done = 0;
  for (std::size_t rank = 0; rank < results.size(); rank += 2) {
    EXPECT_EQ(results[rank].exit_code, results[rank + 1].exit_code) << rank;
    if (results[rank].exit_code == 0) {
      ++done;
      continue;
    }
    EXPECT_EQ(results[rank].exit_code, 2) << results[rank].err;
    EXPECT_THAT(results[rank].err, HasSubstr("report.json"));
    EXPECT_EQ(results[rank].out.find("ddp on 2 devices"), std::string::npos) << "it has trained";
  }
  EXPECT_EQ(done, 1);
  EXPECT_EQ(program.report()["status"], "ok");
  EXPECT_EQ(program.report()["runs"][0]["epochs"].size(), 20U);
}

TEST_F(JoinedFailure, OfRankZeroLeavesAReportByTheNextRank) {
  const auto results =
      program.run_together(arguments({"--inject=kill:rank=0,step=6"}), world(3, free_port()));
  EXPECT_EQ(results[0].exit_code, 128 + SIGKILL);
  EXPECT_EQ(results[1].exit_code, 4);
  EXPECT_EQ(results[2].exit_code, 4);
  EXPECT_THAT(results[1].out, HasSubstr("report: " + program.path("report.json")));
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 0);
  EXPECT_GE(report["runs"][0]["step"]["count"], 1);
  EXPECT_EQ(report["runs"][0]["devices"].size(), 3u);
}

// The file is made before rank 0 can say that it has made it.
TEST_F(JoinedFailure, OfRankZeroThatReservesTheReportLeavesOneByTheNextRank) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    Ranks ranks(program, world(2, free_port()));
    ranks.start_all(arguments({"--epochs=1000", "--steps=100000", "--timeout=3"}));
    while (!std::filesystem::exists(program.path("report.json"))) {
    }
    ranks.signal(0, signal);
    EXPECT_EQ(ranks.finish(1).exit_code, 4);
    const json report = program.report();
    EXPECT_EQ(report["status"], "failed") << signal;
    EXPECT_EQ(report["error"]["rank"], 0) << signal;
    ranks.signal(0, SIGKILL);
    ranks.finish(0);
    std::filesystem::remove(program.path("report.json"));
  }
}

TEST_F(JoinedFailure, OfRankZeroLeavesTheReportUnderTheNameThatItChose) {
  program.run_together({"--strategy=ddp", "--config=lenet.json", "--inject=kill:rank=0,step=6"},
                       world(2, free_port()));
  int reports = 0;
  for (const auto& entry : std::filesystem::directory_iterator(program.directory())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("ddpbench-")) continue;
    ++reports;
    EXPECT_EQ(program.report(name)["error"]["rank"], 0);
  }
  EXPECT_EQ(reports, 1);
}

TEST_F(JoinedFailure, OfAWorkerOfPsNamesItAlsoWhereTheServerNoticesFirst) {
  program.run_together(
      {"--strategy=ps", "--config=lenet.json", "--json=report.json", "--inject=kill:rank=1,step=4"},
      world(3, free_port()));
  EXPECT_EQ(program.report()["error"]["rank"], 1);
}

TEST_F(JoinedFailure, OfAStoppedRankEndsTheOthersAtTheTimeoutAndNamesIt) {
  Ranks ranks(program, world(3, free_port()));
  ranks.start_all(arguments({"--inject=stop:rank=1,step=4", "--timeout=6"}));
  EXPECT_EQ(ranks.finish(0).exit_code, 4);
  EXPECT_EQ(ranks.finish(2).exit_code, 4);
  const json error = program.report()["error"];
  EXPECT_EQ(error["rank"], 1);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("rank 1 is stopped"));
  ranks.signal(1, SIGCONT);
  EXPECT_EQ(ranks.finish(1).exit_code, 4);
}

TEST_F(JoinedFailure, OfAStoppedRankZeroLeavesAReportByTheNextRank) {
  Ranks ranks(program, world(2, free_port()));
  ranks.start_all(arguments({"--inject=stop:rank=0,step=4", "--timeout=6"}));
  EXPECT_EQ(ranks.finish(1).exit_code, 4);
  const json error = program.report()["error"];
  EXPECT_EQ(error["rank"], 0);
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("rank 0 is stopped"));
  const std::string written = program.read("report.json");
  ranks.signal(0, SIGCONT);
  EXPECT_EQ(ranks.finish(0).exit_code, 4);
  EXPECT_EQ(program.read("report.json"), written);
}

TEST_F(JoinedFailure, OfARankThatNeverComesLeavesAReport) {
  Ranks ranks(program, world(3, free_port()));
  ranks.start(0, arguments({"--timeout=4"}));
  ranks.start(2, arguments({"--timeout=4"}));
  const ProgramResult first = ranks.finish(0);
  EXPECT_EQ(first.exit_code, 4);
  // Said before the end, so that nobody waits for long without knowing for whom.
  EXPECT_THAT(first.err, HasSubstr("rank 0: waiting for rank 1 of 3 to come, 3 s of 4 s"));
  const ProgramResult other = ranks.finish(2);
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_THAT(other.err, HasSubstr("rank 1 did not come within 4 s"));
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["kind"], "timeout");
  EXPECT_TRUE(report["error"].value("host", json()).is_null());
  EXPECT_TRUE(report["error"]["phase"].is_null());
  EXPECT_EQ(report["runs"][0]["strategy"], "ddp");
  EXPECT_EQ(report["runs"][0]["world_size"], 3);
}

// The limit is longer than the test may last: the end is noticed.
TEST_F(JoinedFailure, OfManyRanksThatNeverComeListsTen) {
  Ranks ranks(program, world(5000, free_port()));
  ranks.start(0, arguments({"--timeout=2"}));
  const ProgramResult result = ranks.finish(0);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others did not come within 2 s"));
}

TEST_F(JoinedFailure, OfARankThatDiesBeforeAllHaveJoinedIsNoticedAtOnce) {
  const int port = free_port();
  Ranks ranks(program, world(3, port));
  ranks.start(0, arguments({"--timeout=100000"}));
  ranks.start(1, arguments({"--timeout=100000"}));
  look_into(port)->get("joined/roll/said/1", 60);
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.finish(0).exit_code, 4);
  EXPECT_EQ(program.report()["error"]["rank"], 1);
}

TEST_F(JoinedFailure, OfASecondProcessWithTheSameRankIsItsOwn) {
  const int port = free_port();
  Ranks ranks(program, world(3, port));
  const int first = ranks.start(0, arguments());
  const int second = ranks.start(1, arguments());
  look_into(port)->get("joined/roll/said/1", 60);

  const auto strays = world(3, port);
  const int again = program.start(arguments(), strays[1], ".again");
  const ProgramResult refused = program.finish(again, ".again");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(second) + " on "));
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(again) + " on "));
  const int other = program.start(arguments(), strays[0], ".other");
  const ProgramResult second_world = program.finish(other, ".other");
  EXPECT_EQ(second_world.exit_code, 2);
  EXPECT_THAT(second_world.err, HasSubstr("process " + std::to_string(first) + " on "));

  ranks.start(2, arguments());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const ProgramResult result = ranks.finish(rank);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(JoinedFailure, OptionsThatDifferAreRefusedByAllRanks) {
  Ranks ranks(program, world(3, free_port()));
  ranks.start(0, arguments({"--verify-steps=0"}));
  ranks.start(1, arguments({"--verify-steps=0"}));
  ranks.start(2, arguments({"--verify-steps=0", "--lr=0.5"}));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const ProgramResult result = ranks.finish(rank);
    EXPECT_EQ(result.exit_code, 2) << rank;
    EXPECT_THAT(result.err, HasSubstr("--lr is 0.5 on rank 2 but 0.01 on rank 0")) << rank;
  }
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(JoinedFailure, WhatOneRankRefusesAllRanksTell) {
  program.write("report.json", "here");
  const auto results = program.run_together(arguments(), world(2, free_port()));
  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("report.json"));
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

class BelowMpirun : public JoinedFailure {
 protected:
  void SetUp() override {
    program.executable = find_mpirun();
    if (program.executable.empty()) GTEST_SKIP() << "there is no mpirun in PATH";
    program.environment = test::mpirun_environment(program);
  }
  ProgramResult run_three(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"-n", "3", DDPBENCH_BINARY};
    const auto rest = arguments(more);
    all.insert(all.end(), rest.begin(), rest.end());
    return program.run(all);
  }
};

TEST_F(BelowMpirun, RanksFindEachOtherWithoutASecretOfTheUser) {
  const ProgramResult result = run_three();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["runs"][0]["world_size"], 3);
}

// mpirun lets it go on when it ends the job, so it is not stopped any more at the second look.
TEST_F(BelowMpirun, AReportNamesTheStoppedRank) {
  const ProgramResult result = run_three({"--inject=stop:rank=1,step=6", "--timeout=3"});
  EXPECT_NE(result.exit_code, 0);
  const json report = program.report();
  EXPECT_EQ(report["error"]["rank"], 1) << report["error"];
  EXPECT_EQ(report["error"]["kind"], "stalled");
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
}

TEST_F(BelowMpirun, AReportNamesTheKilledRankThoughMpirunEndsTheOthersAtOnce) {
  for (const int guilty : {1, 0}) {
    const ProgramResult result =
        run_three({"--force", "--inject=kill:rank=" + std::to_string(guilty) + ",step=6"});
    EXPECT_NE(result.exit_code, 0);
    const json report = program.report();
    EXPECT_EQ(report["status"], "failed") << guilty;
    EXPECT_EQ(report["error"]["rank"], guilty);
    EXPECT_EQ(report["runs"][0]["devices"].size(), 3u);
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
    std::filesystem::remove(program.path("report.json"));
  }
}

}  // namespace
}  // namespace ddpbench
