// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// mpi between processes that mpirun starts (mpi_ranks.cpp): the checks of all engines, and what
// ranks see when others do not come, stop, die, leave, abort, or call another operation.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

namespace ddpbench::comm::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct MpiOutcome {
  int exit_code = -1;
  std::string out;  // of all ranks, and of mpirun
};

bool has_mpirun() {
  std::istringstream path(::getenv("PATH") ? ::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

int unused_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return ntohs(address.sin_port);
}

// The ranks have ended when it strikes: where several fail at once, mpirun of Open MPI 4.1 now and
// then locks up in its own end (PMIx_server_finalize waits for a thread that waits for its lock).
constexpr std::string_view kEndMpirun = "timeout --signal=KILL 45";
// Under AddressSanitizer: Open MPI leaves memory behind, much of it in modules that it unloads, so
// that no suppression can name it.
constexpr std::string_view kForgiveLeaks = "env ASAN_OPTIONS=detect_leaks=0";

// `more`: arguments of mpirun.
MpiOutcome run_mpi(int size, const std::string& mode, const std::string& more = "") {
  const std::string command = fmt::format(
      "exec {} {} mpirun --allow-run-as-root --oversubscribe {} -n {} '{}' {} {} 2>&1 </dev/null",
      kForgiveLeaks, kEndMpirun, more, size, DDPBENCH_MPI_RANKS, mode, unused_port());
  MpiOutcome outcome;
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> text;
  while (std::fgets(text.data(), text.size(), pipe) != nullptr) outcome.out += text.data();
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class BelowRealMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun in PATH";
  }
};
class MpiWorlds : public BelowRealMpirun, public ::testing::WithParamInterface<int> {};

TEST_P(MpiWorlds, PassAllChecksOfEngines) {
  const MpiOutcome outcome = run_mpi(GetParam(), "checks");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("rank {}: ok", rank)));
  }
}

TEST_P(MpiWorlds, ReduceByAnAlgorithmOfOursWhenAsked) {
  for (const char* mode : {"ring", "direct"}) {
    const MpiOutcome outcome = run_mpi(GetParam(), mode);
    EXPECT_EQ(outcome.exit_code, 0) << mode << ": " << outcome.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiWorlds, ::testing::Range(1, 9),
                         ::testing::PrintToStringParamName());

// Each letter is a host.
class MpiHosts : public BelowRealMpirun, public ::testing::WithParamInterface<const char*> {};

TEST_P(MpiHosts, PassAllChecksOfEnginesWithSharedMemoryWithin) {
  const std::string hosts = GetParam();
  const MpiOutcome outcome = run_mpi(static_cast<int>(hosts.size()), "hosts-" + hosts);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("rank {}: ok", rank)));
  }
}

// As if each host had a network of its own, over which transfers go in pieces.
TEST_P(MpiHosts, PassAllChecksOfEnginesOverTcp) {
  const std::string hosts = GetParam();
  const MpiOutcome outcome =
      run_mpi(static_cast<int>(hosts.size()), "apart-" + hosts, "--mca pml ob1 --mca btl tcp,self");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("rank {}: ok", rank)));
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiHosts,
                         ::testing::Values("a", "ab", "aab", "abab", "abcde", "aaabbb", "abcabca",
                                           "aaaabbbb"),
                         [](const auto& tested) { return std::string(tested.param); });

using MpiPieces = BelowRealMpirun;

TEST_F(MpiPieces, AreEagerBetweenHostsAndWholeWithin) {
  const MpiOutcome outcome = run_mpi(3, "pieces-aab", "--mca pml ob1 --mca btl tcp,vader,self");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (const char* line :
       {"0 sends whole whole 65280\n", "1 sends whole whole 65280\n", "2 sends 65280 65280 whole\n",
        "0 is one of 2 here\n", "1 is one of 2 here\n", "2 is one of 1 here\n"}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
}

TEST_F(MpiPieces, FollowTheLimitThatTheUserSets) {
  const MpiOutcome outcome =
      run_mpi(2, "pieces-ab", "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_eager_limit 131072");
  EXPECT_THAT(outcome.out, HasSubstr("0 sends whole 130816\n"));
}

TEST_F(MpiPieces, AreWholeWhereMpiUsesNoTcp) {
  const MpiOutcome outcome = run_mpi(2, "pieces-ab", "--mca pml ob1 --mca btl vader,self");
  EXPECT_THAT(outcome.out, HasSubstr("0 sends whole whole\n"));
}

TEST_F(MpiPieces, AreTheSmallestOfAllRanksWhereLimitsDiffer) {
  const MpiOutcome outcome = run_mpi(2, "pieces-aB", "--mca pml ob1 --mca btl tcp,self");
  EXPECT_THAT(outcome.out, HasSubstr("0 sends whole 65280\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1 sends 65280 whole\n"));
}

using MpiFailure = BelowRealMpirun;

TEST_F(MpiFailure, ARankThatDoesNotComeIsNamedWhenTheDeadlinePasses) {
  const MpiOutcome outcome = run_mpi(3, "late");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("rank 2, which did not come"));
  EXPECT_THAT(outcome.out, HasSubstr("rank 2: rank 2 of 3: aborted by rank"));
}

TEST_F(MpiFailure, AStoppedRankIsNamedWhenTheDeadlinePasses) {
  const MpiOutcome outcome = run_mpi(3, "stopped");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("1, which did not come"));
  EXPECT_THAT(outcome.out, HasSubstr("rank 1: rank 1 of 3: aborted by rank"));
}

class MpiDisagreement : public BelowRealMpirun,
                        public ::testing::WithParamInterface<const char*> {};

TEST_P(MpiDisagreement, IsToldBothRanks) {
  const MpiOutcome outcome = run_mpi(2, GetParam());
  EXPECT_NE(outcome.exit_code, 0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(outcome.out, ContainsRegex(fmt::format("rank {}: [^\n]*ranks disagree", rank)));
  }
}

INSTANTIATE_TEST_SUITE_P(About, MpiDisagreement,
                         ::testing::Values("roots", "one-more", "few", "average", "integers",
                                           "barrier", "broadcast"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(MpiFailure, APassedDeadlineOfAMessageLeavesItUnderWay) {
  const MpiOutcome outcome = run_mpi(2, "passed");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
}

TEST_F(MpiFailure, AMessageOfAnotherSizeIsAnErrorOnBothSides) {
  const MpiOutcome outcome = run_mpi(2, "message");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("rank 0: rank 0 of 2"));
  EXPECT_THAT(outcome.out, HasSubstr("the message has 10 fp32, but 9 fp32 are expected"));
}

TEST_F(MpiFailure, AbortFromAnotherThreadReachesAllRanksWithItsReason) {
  const MpiOutcome outcome = run_mpi(3, "abort");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("rank {}: rank {} of 3", rank, rank)));
  }
  EXPECT_THAT(outcome.out, HasSubstr("aborted by rank 0: the user changed his mind"));
}

TEST_F(MpiFailure, ARankThatLeavesIsNamed) {
  const MpiOutcome outcome = run_mpi(2, "leave");
  EXPECT_THAT(outcome.out, HasSubstr("rank 1 has left"));
  EXPECT_THAT(outcome.out, HasSubstr("rank 1: ok"));
}

TEST_F(MpiFailure, ACommunicatorThatMpiCannotMakeEndsAtTheDeadline) {
  const MpiOutcome outcome = run_mpi(3, "absent");
  EXPECT_NE(outcome.exit_code, 0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format(
                                 "rank {}: MPI_Comm_create_group: deadline passed while MPI made "
                                 "a communicator of the ranks 0, 1, 2",
                                 rank)));
  }
}

// mpirun ends the others.
TEST_F(MpiFailure, AKilledRankEndsTheJob) {
  const MpiOutcome outcome = run_mpi(3, "killed");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("signal 9"));
}

}  // namespace
}  // namespace ddpbench::comm::testing
