// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// mpi between processes that mpirun starts (mpi_ranks.cpp): the checks of all engines, and what
// ranks see when others do not come, stop, die or abort.
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

MpiOutcome run_mpi(int size, const std::string& mode) {
  const std::string command = fmt::format(
      "exec {} {} mpirun --allow-run-as-root --oversubscribe -n {} '{}' {} {} 2>&1 </dev/null",
      kForgiveLeaks, kEndMpirun, size, DDPBENCH_MPI_RANKS, mode, unused_port());
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

INSTANTIATE_TEST_SUITE_P(Mpi, MpiWorlds, ::testing::Values(2, 3, 4, 7),
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

INSTANTIATE_TEST_SUITE_P(Mpi, MpiHosts, ::testing::Values("aa", "ab", "aab", "abab", "aaabbb"),
                         [](const auto& tested) { return std::string(tested.param); });

using MpiFailure = BelowRealMpirun;

// Who did not come is told by the calls of all ranks, which the supervisor sees.
TEST_F(MpiFailure, ARankThatDoesNotComeEndsTheOthersAtTheirDeadline) {
  for (const char* mode : {"late", "stopped"}) {
    const MpiOutcome outcome = run_mpi(3, mode);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("all_reduce of 200000 bytes: deadline passed")) << mode;
  }
}

TEST_F(MpiFailure, APassedDeadlineOfAMessageLeavesItUnderWay) {
  const MpiOutcome outcome = run_mpi(2, "passed");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
}

TEST_F(MpiFailure, ALongerMessageThanTheReceiverExpectsIsAnErrorThere) {
  const MpiOutcome outcome = run_mpi(2, "message");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("rank 1: rank 1 of 2: recv of 36 bytes from rank 0: MPI_"));
}

TEST_F(MpiFailure, AbortFromAnotherThreadEndsTheRanksCalls) {
  const MpiOutcome outcome = run_mpi(3, "abort");
  EXPECT_THAT(outcome.out, HasSubstr("aborted by rank 0: the user changed his mind"));
}

// mpirun ends the others.
TEST_F(MpiFailure, AKilledRankEndsTheJob) {
  const MpiOutcome outcome = run_mpi(3, "killed");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("signal 9"));
}

}  // namespace
}  // namespace ddpbench::comm::testing
