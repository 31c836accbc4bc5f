// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program where its surroundings fail: closed descriptors, a full disk, readers that go away.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using test::Program;
using test::ProgramResult;
using test::small_config;
using test::small_run;
using testing::HasSubstr;

class Surroundings : public testing::Test {
 protected:
  Surroundings() { program.write("lenet.json", small_config({})); }

  // Starts many runs, acts when there are ranks, and returns the result.
  ProgramResult run_and(const std::function<void(int pid)>& act) {
    return program.run(small_run("ddp", {"--repetitions=1000"}), [&](int pid) {
      EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
      act(pid);
    });
  }

  Program program;
};

TEST_F(Surroundings, AParentThatIgnoresTheEndOfChildrenChangesNothing) {
  program.prepare = [] { ::signal(SIGCHLD, SIG_IGN); };
  const ProgramResult result = program.run(small_run("ddp"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
}

// libgomp would bind the first thread to one core, and everything else inherit that.
TEST_F(Surroundings, AUsersBindingOfOpenMPThreadsHidesNoCores) {
  const std::string all = program.run({"info"}).out;
  for (const auto& [name, value] :
       {std::pair("OMP_PROC_BIND", "true"), {"OMP_PLACES", "{0}"}, {"GOMP_CPU_AFFINITY", "0"}}) {
    program.environment = {{name, value}, {"OMP_NUM_THREADS", "1"}};
    const std::string bound = program.run({"info"}).out;
    const std::size_t line = all.find(" cores, "), end = all.find('\n', line);
    EXPECT_THAT(bound, HasSubstr(all.substr(line - 3, end - line + 3))) << name;
  }
}

TEST_F(Surroundings, ClosedDescriptorsAreAsGoodAsDevNull) {
  const ProgramResult open = program.run(small_run("ddp"));
  ASSERT_EQ(open.exit_code, 0) << open.err;
  const nlohmann::json loss = program.report()["runs"][0]["epochs"][0]["train_loss"];
  for (const auto& closed : std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1, 2}}) {
    SCOPED_TRACE(testing::PrintToString(closed));
    program.closed = closed;
    ASSERT_EQ(program.run(small_run("ddp", {"--force"})).exit_code, 0);
    const nlohmann::json run = program.report().at("runs").at(0);
    EXPECT_EQ(run["verification"]["status"], "passed");
    EXPECT_EQ(run["epochs"][0]["train_loss"], loss);
  }
}

class AllDescriptorsClosed : public Surroundings,
                             public testing::WithParamInterface<const char*> {};

TEST_P(AllDescriptorsClosed, AreAsGoodAsDevNull) {
  std::vector<std::string> arguments = small_run(GetParam());
  if (GetParam() == std::string_view("comm")) {
    arguments = {"comm", "--ranks=2", "--iterations=5", "--sizes=1K", "--json=report.json"};
  }
  program.closed = {0, 1, 2};
  EXPECT_EQ(program.run(arguments).exit_code, 0);
  EXPECT_EQ(program.report()["status"], "ok");
}

INSTANTIATE_TEST_SUITE_P(Any, AllDescriptorsClosed, testing::Values("single", "dp", "ps", "comm"),
                         [](const auto& p) { return std::string(p.param); });

TEST_F(Surroundings, AFullDiskUnderStdoutIsToldAndCostsNoResult) {
  program.stdout_path = "/dev/full";
  const ProgramResult result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
  EXPECT_EQ(program.report()["status"], "ok");
  EXPECT_EQ(program.run({"show", "report.json", "--format=csv"}).exit_code, 2);
  EXPECT_EQ(program.run({"--help"}).exit_code, 2);
}

class EndingSignal : public Surroundings, public testing::WithParamInterface<int> {};

TEST_P(EndingSignal, LeavesAReportAndNothingElse) {
  // A shell lets its background jobs ignore SIGQUIT, and so would what they start.
  program.prepare = [] { ::signal(GetParam(), SIG_DFL); };
  const ProgramResult result = run_and([](int pid) { ::kill(pid, GetParam()); });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(program.report()["status"], "interrupted");
  EXPECT_TRUE(Program::wait_until([&] { return program.processes().empty(); }));
}

INSTANTIATE_TEST_SUITE_P(Any, EndingSignal,
                         testing::Values(SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU,
                                         SIGPIPE),
                         [](const auto& p) { return std::string(::sigabbrev_np(p.param)); });

// Whether the process has the memory that the data set is decoded into.
bool has_dataset_memory(int pid) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    const std::string name = fs::read_symlink(entry.path(), gone).string();
    if (name.find("memfd:ddpbench-dataset") != std::string::npos) return true;
  }
  return false;
}

TEST_F(Surroundings, ASignalWhileTheDataIsDecodedLeavesAReport) {
  const ProgramResult result = program.run(small_run("ddp"), [](int pid) {
    while (!has_dataset_memory(pid)) {
    }
    ::kill(pid, SIGTERM);
  });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(program.report()["status"], "interrupted");
}

TEST_F(Surroundings, AReaderThatGoesAwayEndsTheRunWithAReport) {
  program.stdout_path = program.path("pipe");
  ASSERT_EQ(::mkfifo(program.stdout_path.c_str(), 0600), 0);
  const int reader = ::open(program.stdout_path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const ProgramResult result = run_and([&](int) { ::close(reader); });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(program.report()["status"], "interrupted");
}

int oom_score(const std::string& process) {
  int score = -1000;
  std::ifstream("/proc/" + process + "/oom_score_adj") >> score;
  return score;
}

TEST_F(Surroundings, TheKernelTakesARankBeforeTheSupervisorWhereMemoryIsShort) {
  const int own = oom_score("self");
  if (own > 500) GTEST_SKIP() << "this process is the first that the kernel takes already";
  run_and([&](int pid) {
    const auto both_ranks_are_likelier = [&] {
      int ranks = 0;
      for (const int process : program.processes()) {
        if (process != pid && oom_score(std::to_string(process)) == own + 500) ++ranks;
      }
      return ranks == 2;
    };
    EXPECT_TRUE(Program::wait_until(both_ranks_are_likelier));
    EXPECT_EQ(oom_score(std::to_string(pid)), own);
    ::kill(pid, SIGTERM);
  });
}

}  // namespace
}  // namespace ddpbench::bench
