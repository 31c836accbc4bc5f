// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The supervisor against ranks that work, fail, die, stall, refuse to end, or are interrupted.
//
// No test depends on the speed of the machine. Where a time limit must pass, the ranks stand still
// for ever; where it must not, it is far longer than the test.
#include "parallel/launch/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "parallel/launch/child_process.h"

namespace ddpbench::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kNever_s = 1000;  // a limit that no test reaches
constexpr double kStall_s = 3;     // a limit that must pass, but only after the ranks have started

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool has_children() { return !(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD); }

class Supervisor : public testing::Test {
 protected:
  Supervisor() {
    spec_.executable = DDPBENCH_RANK_PROGRAM;
    options_.timeout_s = kNever_s;
    options_.grace_s = kNever_s;
  }

  SuperviseResult run(int ranks, std::vector<std::string> actions) {
    channels_ = std::make_unique<RankChannels>(RankChannels::create({.ranks = ranks}));
    spec_.ranks = ranks;
    spec_.inherited_fds = {channels_->fd()};
    spec_.arguments = {std::to_string(channels_->fd())};
    spec_.arguments.insert(spec_.arguments.end(), actions.begin(), actions.end());
    const std::size_t descriptors = open_descriptors();
    const SuperviseResult result = run_ranks(spec_, *channels_, options_);
    EXPECT_FALSE(has_children()) << "a process was left behind";
    EXPECT_EQ(open_descriptors(), descriptors) << "a socket, pipe or mapping was left behind";
    return result;
  }

  // As run(), for actions that must fail.
  RunFailure failure_of(int ranks, std::vector<std::string> actions) {
    const SuperviseResult result = run(ranks, std::move(actions));
    EXPECT_FALSE(result.interrupted);
    EXPECT_TRUE(result.failure.has_value());
    return result.failure.value_or(RunFailure{});
  }

  LaunchSpec spec_;
  SuperviseOptions options_;
  std::unique_ptr<RankChannels> channels_;
};

TEST_F(Supervisor, ReturnsWhenAllRanksHaveFinished) {
  const SuperviseResult result = run(3, {});
  EXPECT_FALSE(result.failure);
  EXPECT_FALSE(result.interrupted);
  EXPECT_GT(result.startup_s, 0);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(channels_->status(rank).state, RankState::finished);
    EXPECT_EQ(channels_->status(rank).step, 5U);
  }
}

TEST_F(Supervisor, TellsEachRankItsPlaceAndItsOpenMpSettings) {
  spec_.threads_per_device = 3;
  spec_.environment = {{"EXTRA", "given"}, {"RANK", "9"}};
  run(2, {"0:describe", "1:describe"});
  EXPECT_THAT(channels_->result(0), HasSubstr("0/2 0 ddpbench"));
  EXPECT_THAT(channels_->result(1),
              AllOf(HasSubstr("1/2 1 ddpbench"), HasSubstr("OMP_NUM_THREADS=3\n"),
                    HasSubstr("OMP_WAIT_POLICY=PASSIVE\n"), HasSubstr("OMP_PROC_BIND=false\n"),
                    HasSubstr("EXTRA=given\n")));
}

// Four ranks of two processes.
class SharedProcesses : public Supervisor {
 protected:
  SharedProcesses() {
    spec_.ranks_per_process = 2;
    spec_.environment = {{"RANKS_PER_PROCESS", "2"}};
  }
};

TEST_F(SharedProcesses, HaveAStateForEachRank) {
  const SuperviseResult result = run(4, {"1:describe"});
  EXPECT_FALSE(result.failure);
  EXPECT_GT(result.startup_s, 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(channels_->status(rank).state, RankState::finished) << rank;
  }
  EXPECT_THAT(channels_->result(2), HasSubstr("1/2 1 ddpbench"));  // RANK counts processes
}

TEST_F(SharedProcesses, AreNamedByTheirRanks) {
  const RunFailure killed = failure_of(4, {"1:kill:9"});
  EXPECT_EQ(killed.rank, 2);
  EXPECT_EQ(killed.signal, 9);
  EXPECT_THAT(killed.error.message,
              HasSubstr("the process of ranks 2 to 3 was killed by SIGKILL in step 1 (backward)"));
  const RunFailure silent = failure_of(4, {"0:exit:7"});
  EXPECT_EQ(silent.rank, 0);
  EXPECT_THAT(silent.error.message,
              HasSubstr("the process of ranks 0 to 1 ended with exit code 7"));
}

// The exit code of the process is that of the rank that told its error, here rank 2.
TEST_F(SharedProcesses, DoNotBlameARankForTheErrorOfAnother) {
  const RunFailure failure = failure_of(4, {"1:fail:internal"});
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.error.message, "planted failure");
}

TEST_F(Supervisor, HandsDownOnlyTheListedDescriptors) {
  const int stray = ::open("/proc/self/status", O_RDONLY);  // not close-on-exec
  run(1, {"0:describe"});
  ::close(stray);
  EXPECT_THAT(channels_->result(0),
              AllOf(HasSubstr("fd 0 /dev/null"), HasSubstr("ddpbench-channels"),
                    Not(HasSubstr("/status"))));
}

// How many forks of this process are still left until a child is stopped before it executes its
// program; 0 in that child.
int forks_left = -1;

TEST_F(Supervisor, NamesARankThatIsStoppedBeforeItsProgramRuns) {
  ASSERT_EQ(::pthread_atfork([] { --forks_left; }, nullptr,
                             [] {
                               if (forks_left == 0) ::raise(SIGSTOP);
                             }),
            0);
  forks_left = 2;
  options_.timeout_s = kStall_s;
  const RunFailure failure = failure_of(3, {});
  forks_left = -1;
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "stalled");
  EXPECT_EQ(failure.error.exit_code, 4);
  EXPECT_THAT(failure.error.message, HasSubstr("rank 1 is stopped"));
}

TEST_F(Supervisor, ServesTheStoreInWhichRanksMeet) {
  EXPECT_FALSE(run(3, {"0:meet", "1:meet", "2:meet"}).failure);
}

TEST_F(Supervisor, GivesTheRanksItsStandardErrorForAllTheirOutput) {
  testing::internal::CaptureStderr();
  run(2, {"0:print:hello", "1:print:goodbye"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("rank 0 says hello\n"), HasSubstr("rank 1 says goodbye\n")));
}

TEST_F(Supervisor, ReportsProgressAlsoAfterTheEnd) {
  std::uint64_t last_step = 0;
  options_.progress = [&](const RankChannels& channels) { last_step = channels.status(0).step; };
  run(1, {});
  EXPECT_EQ(last_step, 5U);
}

TEST_F(Supervisor, NamesTheRankThatWasKilledAndEndsTheOthers) {
  const RunFailure failure = failure_of(3, {"0:work", "1:kill:9", "2:work"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.signal, SIGKILL);
  EXPECT_EQ(failure.error.kind, "signal");
  EXPECT_EQ(failure.error.message, "rank 1 was killed by SIGKILL in step 1 (backward)");
  EXPECT_EQ(failure.last.step, 1U);
}

TEST_F(Supervisor, NamesTheRankThatExitedWithoutAReason) {
  const RunFailure failure = failure_of(2, {"0:work", "1:exit:7"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.signal, 0);
  EXPECT_EQ(failure.error.kind, "exit");
  EXPECT_THAT(failure.error.message, HasSubstr("exit code 7 in step 1 (backward)"));
}

TEST_F(Supervisor, PassesOnTheErrorOfTheRankThatThrew) {
  const RunFailure failure = failure_of(2, {"0:fail:device", "1:work"});
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.error.kind, "device");
  EXPECT_EQ(failure.error.message, "planted failure");
  EXPECT_EQ(failure.error.operation, "all_reduce");
  EXPECT_EQ(failure.error.exit_code, 1);
}

TEST_F(Supervisor, NamesTheRankThatThrewLaterRatherThanThePeerThatLostIt) {
  const RunFailure failure = failure_of(2, {"0:fail:comm", "1:late:internal"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "internal");
}

TEST_F(Supervisor, NamesTheStoppedRankRatherThanTheOneWhoseDeadlinePassed) {
  const RunFailure failure = failure_of(2, {"0:deadline", "1:stop"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "stalled");
  EXPECT_THAT(failure.error.message, HasSubstr("stopped"));
}

TEST_F(Supervisor, NamesTheRankThatIsBehindRatherThanTheOneWhoseDeadlinePassed) {
  const RunFailure failure = failure_of(3, {"0:deadline", "1:hang", "2:deadline"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "stalled");
}

TEST_F(Supervisor, NamesTheRankThatLeftEarlyWhenAnotherNoticed) {
  const RunFailure failure = failure_of(2, {"0:leave", "1:deadline"});
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.error.kind, "exit");
}

TEST_F(Supervisor, DetectsThatAllRanksStandStill) {
  options_.timeout_s = kStall_s;
  const RunFailure failure = failure_of(2, {"0:hang", "1:stop"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "stalled");
  EXPECT_EQ(failure.error.exit_code, 4);
}

TEST_F(Supervisor, DoesNotMistakeARankThatEndedForOneThatStalls) {
  options_.timeout_s = kStall_s;
  EXPECT_EQ(failure_of(2, {"1:hang"}).rank, 1);
}

TEST_F(Supervisor, WaitsForEverWithoutATimeout) {
  options_.timeout_s = 0;
  int looks = 0;
  options_.interrupted = [&] { return ++looks > 10; };
  const SuperviseResult result = run(1, {"0:hang"});
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.failure);
}

TEST_F(Supervisor, KillsARankThatIgnoresTheRequestToEnd) {
  options_.grace_s = 0.1;
  options_.interrupted = [&] { return channels_->status(0).bucket == 1; };  // it is deaf by now
  EXPECT_TRUE(run(2, {"0:deaf", "1:work"}).interrupted);
}

TEST_F(Supervisor, EndsAllRanksWhenItIsInterrupted) {
  options_.interrupted = [&] {
    return channels_->status(0).step == 1 && channels_->status(1).step == 1;
  };
  const SuperviseResult result = run(2, {"0:work", "1:stop"});
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.failure);
}

TEST_F(Supervisor, TakesARanksDeathByTheSameSignalForAPartOfTheInterruption) {
  // `timeout` or a terminal signals the whole process group, and the rank may be faster.
  options_.interrupted = [&, looks = 0]() mutable { return ++looks > 4; };
  EXPECT_TRUE(run(2, {"0:work", fmt::format("1:kill:{}", SIGTERM)}).interrupted);
}

TEST_F(Supervisor, NamesARankThatAStrangerTerminated) {
  const RunFailure failure = failure_of(2, {"0:work", fmt::format("1:kill:{}", SIGTERM)});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.signal, SIGTERM);
}

TEST_F(Supervisor, ProtectsRanksFromTheTerminalsInterrupt) {
  EXPECT_FALSE(run(1, {fmt::format("0:kill:{}", SIGINT)}).failure);
}

TEST_F(Supervisor, SaysWhichProgramCannotBeStarted) {
  spec_.executable = "/no/such/program";
  const std::size_t descriptors = open_descriptors();
  RankChannels channels = RankChannels::create({.ranks = 2});
  spec_.ranks = 2;
  try {
    run_ranks(spec_, channels, options_);
    FAIL() << "a program that does not exist was started";
  } catch (const UnavailableError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/no/such/program"), HasSubstr("No such file")));
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_descriptors(), descriptors + 1) << "beyond the channels' own";
}

TEST_F(Supervisor, EndsItsRanksWhenProgressThrows) {
  options_.progress = [](const RankChannels&) { throw ConfigError("planted"); };
  EXPECT_THROW(run(2, {"0:work", "1:deaf"}), ConfigError);
  EXPECT_FALSE(has_children());
}

// Reads the process ids of the two ranks that `rank_program supervise` prints.
std::array<pid_t, 2> read_pids(int fd) {
  std::string text;
  std::array<char, 64> part{};
  while (text.find('\n') == std::string::npos) {
    const ssize_t count = ::read(fd, part.data(), part.size());
    if (count <= 0) return {};
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  std::array<pid_t, 2> pids{};
  std::istringstream(text) >> pids[0] >> pids[1];
  return pids;
}

TEST(RanksOfASupervisorThatIsKilled, DieWithIt) {
  // Orphans become children of this process, so that it can see how they end.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  std::array<int, 2> output{};
  ASSERT_EQ(::pipe2(output.data(), O_CLOEXEC), 0);
  ChildSpec spec;
  spec.executable = DDPBENCH_RANK_PROGRAM;
  spec.arguments = {"rank_program", "supervise"};
  spec.output_fd = output[1];
  ChildProcess supervisor(spec);
  supervisor.confirm(60000);
  ::close(output[1]);
  const std::array<pid_t, 2> ranks = read_pids(output[0]);
  ::close(output[0]);
  ASSERT_GT(ranks[0], 0);
  supervisor.signal(SIGKILL);
  ASSERT_EQ(supervisor.reap(true)->signal, SIGKILL);
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(::waitpid(rank, &status, 0), rank);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

}  // namespace
}  // namespace ddpbench::launch
