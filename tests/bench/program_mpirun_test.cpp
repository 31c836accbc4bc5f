// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrices whose runs mpirun or srun starts. srun is a script that starts the ranks as srun does
// (tests/slurm has a real one); mpirun is real.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "tests/bench/launcher_fixture.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Launchers;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::HasSubstr;

// The inodes of the sockets that listen beyond loopback.
std::set<std::string> sockets_open_to_others() {
  constexpr const char* kLoopback[] = {"0100007F:", "00000000000000000000000001000000:"};
  std::set<std::string> inodes;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string skipped, address, state, inode;
      words >> skipped >> address >> skipped >> state;
      for (int i = 0; i < 6; ++i) words >> inode;
      const bool is_local = std::ranges::any_of(
          kLoopback, [&](const char* begin) { return address.starts_with(begin); });
      if (state == "0A" && !is_local) inodes.insert("socket:[" + inode + "]");
    }
  }
  return inodes;
}

int count_sockets(int pid, const std::set<std::string>& sockets) {
  std::error_code ignored;
  int count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), ignored)) {
    count += sockets.contains(std::filesystem::read_symlink(file, ignored).string()) ? 1 : 0;
  }
  return count;
}

class MpirunLauncher : public Launchers {
 protected:
  // How many processes of the program have the library in their memory.
  int count_with_mapped(const std::string& library) const {
    int count = 0;
    for (const int process : program.processes()) {
      std::ifstream maps(fmt::format("/proc/{}/maps", process));
      const std::string text(std::istreambuf_iterator<char>(maps), {});
      count += text.find(library) == text.npos ? 0 : 1;
    }
    return count;
  }
  void SetUp() override {
    if (::system("command -v mpirun >/dev/null") != 0) {
      GTEST_SKIP() << "there is no mpirun in PATH";
    }
    program.environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                {"ASAN_OPTIONS", "detect_leaks=0"},  // Open MPI's
                                {"TMPDIR", program.directory()}});
  }
  std::vector<std::string> below_mpirun(const std::string& strategies, const std::string& gpus,
                                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--gpus=" + gpus, "--launcher=mpirun",
                                    "--launcher-args=--oversubscribe --bind-to none"};
    all.insert(all.end(), more.begin(), more.end());
    return small_run(strategies, all);
  }
};

TEST_F(MpirunLauncher, MakesTheSameMatrix) {
  const ProgramResult result =
      program.run(below_mpirun("single,ddp,ps", "1,2", {"--trace=trace.json", "--trace-steps=3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_trace();
  expect_matrix(program.report(), {"single", "ddp", "ddp", "ps", "ps"});
  EXPECT_EQ(program.report()["config"]["launcher"], "mpirun");
  EXPECT_TRUE(program.report()["environment"]["launcher"].is_null()) << "nothing started it";
  expect_nothing_left();
}

TEST_F(MpirunLauncher, BringsTheBackendThatNeedsIt) {
  const ProgramResult result = program.run(below_mpirun("single,ddp,zero1,zero2,zero3,localsgd",
                                                        "2", {"--backend=mpi", "--sync-every=1"}));
  if (result.exit_code == 3) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const std::size_t i : {1, 2, 3, 4, 5}) {
    const json run = program.report()["runs"][i];
    EXPECT_EQ(run["backend"], "mpi");
    EXPECT_EQ(run["verification"]["status"], "passed") << run["strategy"];
  }
}

TEST_F(MpirunLauncher, OpensNoPortToOthersOnOneHost) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::listen(listener, 1), 0);  // at any address
  EXPECT_EQ(count_sockets(::getpid(), sockets_open_to_others()), 1) << "such a port is seen";
  ::close(listener);
  bool has_ranks = false;
  int open = 0;
  const auto look = [&](int pid) {
    has_ranks = Program::wait_until([&] { return count_with_mapped("libmpi.so") >= 2; });
    ::sleep(3);  // what transports there are have been opened
    for (const int process : program.processes()) {
      std::error_code ignored;
      const auto name =
          std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), ignored);
      if (name.filename() == "ddpbench") open += count_sockets(process, sockets_open_to_others());
    }
    ::kill(pid, SIGINT);
  };
  const ProgramResult result = program.run(
      below_mpirun("ddp", "2", {"--backend=mpi", "--steps=1000000", "--epochs=5000"}), look);
  if (result.exit_code == 3) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 130) << result.err;
  EXPECT_TRUE(has_ranks);
  EXPECT_EQ(open, 0);
}

TEST_F(MpirunLauncher, ReportsTheRankThatIsKilled) {
  const ProgramResult result =
      program.run(below_mpirun("ddp", "2", {"--inject=kill:rank=1,step=2"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
  expect_nothing_left();
}

TEST_F(MpirunLauncher, LeavesAReportAndNothingElseWhenInterrupted) {
  const auto interrupt = [&](int pid) {
    Program::wait_until([&] { return !processes_of_rank(1).empty(); });
    ::kill(pid, SIGINT);
  };
  const ProgramResult result = program.run(
      below_mpirun("ddp", "2", {"--steps=1000000", "--epochs=5000", "--verify-steps=0"}),
      interrupt);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(program.report()["status"], "interrupted");
  expect_nothing_left();
}

TEST_F(Launchers, SaysThatALauncherIsNotHere) {
  program.environment["PATH"] = program.directory();
  const ProgramResult result = program.run(small_run("ddp", {"--launcher=mpirun"}));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("there is no mpirun in PATH"));
}

constexpr const char* kStuckMpirun = R"(#!/bin/sh
# As mpirun of Open MPI 4.1 where it locks up in its own end: its ranks are gone, and it stays, also
# at SIGTERM.
n=$2
while case $1 in /*) false;; esac; do shift; done  # to the program
r=0
while [ $r -lt $n ]; do
  RANK=$r LOCAL_RANK=$r WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 "$@" &
  r=$((r + 1))
done
wait
trap '' TERM
exec sleep 600
)";

TEST_F(Launchers, EndALauncherThatStaysBehindItsRanks) {
  put_in_path("mpirun", kStuckMpirun);
  const double begin_s = steady_s();
  const ProgramResult result = program.run(
      small_run("ddp", {"--gpus=2", "--launcher=mpirun", "--timeout=600", "--verify-steps=0"}));
  EXPECT_LT(steady_s() - begin_s, 120) << "it waited for more than the report";
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
  EXPECT_EQ(program.report()["runs"][0]["step"]["count"], 4);
  expect_nothing_left();
}

TEST_F(Launchers, EndALauncherThatStartsNothing) {
  put_in_path("mpirun", "#!/bin/sh\necho 'no resources' >&2\nexec sleep 600 >&2\n");
  const ProgramResult result =
      program.run(small_run("ddp", {"--gpus=2", "--launcher=mpirun", "--timeout=1"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, testing::AllOf(HasSubstr("no resources"),
                                         HasSubstr("ranks 0, 1 did not come within 1 s")));
  put_in_path("mpirun", "#!/bin/sh\nexit 7\n");
  const ProgramResult ended = program.run(small_run("ddp", {"--gpus=2", "--launcher=mpirun"}));
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_THAT(ended.err, HasSubstr("mpirun ended with exit code 7 before its processes were here"));
  expect_nothing_left();
}

constexpr const char* kSrun = R"(#!/bin/sh
# As srun -n N COMMAND: ranks with Slurm's variables, and the worst of their codes.
[ "$1$3" = -n--kill-on-bad-exit=1 ] || exit 9
n=$2; shift 3
r=0; pids=
while [ $r -lt $n ]; do
  SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=$n SLURM_STEP_ID=0 SLURM_JOB_ID=7 "$@" &
  pids="$pids $!"; r=$((r + 1))
done
code=0
for p in $pids; do wait $p || code=$?; done
exit $code
)";

TEST_F(Launchers, StartRunsBySlurmsVariables) {
  put_in_path("srun", kSrun);
  const ProgramResult result =
      program.run(small_run("single,ddp", {"--gpus=2", "--launcher=srun", "--trace=trace.json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(test::process_names(json::parse(program.read("trace.json"))),
              testing::ElementsAre("single on 1 device, rank 0", "ddp on 2 devices, rank 0",
                                   "ddp on 2 devices, rank 1"));
  expect_matrix(program.report(), {"single", "ddp"});
}

}  // namespace
}  // namespace ddpbench
