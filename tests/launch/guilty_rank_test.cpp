// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which rank is named when a run fails.
#include "parallel/launch/guilty_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace ddpbench::launch {
namespace {

using testing::HasSubstr;
using testing::StrEq;
using Ranks = std::vector<RankView>;

RankView training(std::uint64_t step, Phase phase, std::uint64_t phase_marks) {
  RankView view;
  view.status.state = RankState::training;
  view.status.step = step;
  view.status.phase = static_cast<std::uint32_t>(phase);
  view.status.phase_marks = phase_marks;
  return view;
}

RankView in_backward(std::uint64_t step = 12) { return training(step, Phase::backward, 5); }

RankView with_error(RankView view, const std::string& kind, double error_s) {
  view.status.state = RankState::failed;
  view.status.error_s = error_s;
  view.status.error = RankError{kind, kind + " message", "all_reduce", 4};
  return view;
}

RankView killed(RankView view, int signal) {
  view.exit = ChildExit{0, signal, 0};
  return view;
}

RankView exited(RankView view, int code) {
  view.exit = ChildExit{code, 0, 0};
  return view;
}

RankView server() {
  RankView view;
  view.status.state = RankState::training;
  return view;
}

TEST(FailureCause, IsTheRankWhoseHostIsOutOfReach) {
  RankView lost = in_backward(), noticing = with_error(in_backward(), "comm", 1);
  lost.host = "b";
  lost.lost = "host b: the connection is gone";
  lost.exit = ChildExit{.is_known = false};
  noticing.host = "a";
  const auto failure = find_cause(Ranks{noticing, lost});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->error.kind, "comm");
  EXPECT_THAT(failure->error.message,
              HasSubstr("rank 1 on b was lost in step 12 (backward): host b: the connection"));
}

// Nobody sees how a process of another host is.
TEST(FailureCause, NamesTheOnlyRankOfSeveralHostsThatSaysNothing) {
  RankView late = with_error(in_backward(), "timeout", 1),
           aborted = with_error(in_backward(), "comm", 1.1);
  RankView silent = in_backward();
  EXPECT_EQ(blame_for_noticed(Ranks{late, aborted, silent}).rank, 0) << "the supervisor sees all";
  late.host = "a";
  aborted.host = "b";
  silent.host = "c";
  const RunFailure failure = blame_for_noticed(Ranks{late, aborted, silent});
  EXPECT_EQ(failure.rank, 2);
  EXPECT_THAT(
      failure.error.message,
      HasSubstr("rank 2 on c stands still in step 12 (backward), and says nothing; rank 0 on a "
                "noticed: timeout message"));
  RankView another = silent;
  EXPECT_EQ(blame_for_noticed(Ranks{late, another, silent}).rank, 0) << "either may be to blame";
}

TEST(FailureCause, IsAbsentWhileAllRanksRunOrEndWell) {
  EXPECT_FALSE(find_cause(Ranks{in_backward(), exited(in_backward(), 0)}));
}

TEST(FailureCause, NamesTheSignalAndThePlaceOfARankThatWasKilled) {
  const auto failure = find_cause(Ranks{in_backward(), killed(in_backward(), SIGKILL)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->signal, SIGKILL);
  EXPECT_EQ(failure->error.kind, "signal");
  EXPECT_EQ(failure->error.exit_code, 4);
  EXPECT_THAT(failure->error.message, StrEq("rank 1 was killed by SIGKILL in step 12 (backward)"));
  EXPECT_EQ(failure->last.step, 12U);
}

TEST(FailureCause, SaysDuringSetupBeforeTheFirstStep) {
  RankView view;
  view.status.state = RankState::setup;
  const auto failure = find_cause(Ranks{exited(view, 3)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error.kind, "exit");
  EXPECT_THAT(failure->error.message, HasSubstr("rank 0 ended with exit code 3 during setup"));
}

TEST(FailureCause, PassesOnTheErrorThatARankGave) {
  const auto failure = find_cause(Ranks{in_backward(), with_error(in_backward(), "device", 5)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->error.kind, "device");
  EXPECT_EQ(failure->error.message, "device message");
  EXPECT_EQ(failure->error.operation, "all_reduce");
}

TEST(FailureCause, IsTheEarliestErrorOfSeveral) {
  const auto failure = find_cause(
      Ranks{with_error(in_backward(), "internal", 6), with_error(in_backward(), "device", 5)});
  EXPECT_EQ(failure->rank, 1);
}

TEST(FailureCause, IsTheRankThatDiedRatherThanThoseWhoLostIt) {
  const Ranks ranks{with_error(in_backward(), "comm", 5), killed(in_backward(), SIGSEGV)};
  EXPECT_EQ(find_cause(ranks)->rank, 1);
}

TEST(FailureCause, IsNeverARankThatOnlyNoticed) {
  EXPECT_FALSE(find_cause(Ranks{in_backward(), exited(with_error(in_backward(), "comm", 5), 4)}));
  EXPECT_FALSE(find_cause(Ranks{in_backward(), with_error(in_backward(), "timeout", 5)}));
}

TEST(NoticedFailure, IsBlamedOnAStoppedRank) {
  Ranks ranks{with_error(in_backward(), "timeout", 5), in_backward(13), in_backward()};
  ranks[1].stopped = true;
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "stalled");
  EXPECT_THAT(failure.error.message,
              HasSubstr("rank 1 is stopped (SIGSTOP) in step 13 (backward)"));
  EXPECT_THAT(failure.error.message, HasSubstr("rank 0 noticed: timeout message"));
  EXPECT_EQ(failure.error.operation, "all_reduce");  // where rank 0 noticed it
}

TEST(NoticedFailure, IsBlamedOnARankThatLeftEarly) {
  const Ranks ranks{with_error(in_backward(), "comm", 5), exited(in_backward(), 0)};
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "exit");
}

TEST(NoticedFailure, IsNotBlamedOnARankThatHasFinished) {
  RankView finished = exited(in_backward(), 0);
  finished.status.state = RankState::finished;
  EXPECT_EQ(blame_for_noticed(Ranks{finished, with_error(in_backward(), "comm", 5)}).rank, 1);
}

TEST(NoticedFailure, OfADeadlineIsBlamedOnTheRankThatIsBehind) {
  const Ranks ranks{with_error(training(12, Phase::comm_wait, 7), "timeout", 5),
                    training(12, Phase::comm_wait, 7), in_backward(12)};
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.error.kind, "stalled");
  EXPECT_EQ(failure.error.exit_code, 4);
}

RankView at_start(RankState state) {
  RankView view;
  view.status.state = state;
  return view;
}

TEST(NoticedFailure, OfRanksThatMeetIsBlamedOnTheOneThatHasNotEvenBegun) {
  Ranks ranks{with_error(at_start(RankState::setup), "timeout", 5), at_start(RankState::setup),
              at_start(RankState::starting)};
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_THAT(failure.error.message,
              HasSubstr("rank 2 stands still while starting, behind the others; rank 0 noticed"));
}

TEST(NoticedFailure, OfRanksThatMeetStaysWithTheWitnessWhileAllSetUp) {
  const Ranks ranks{with_error(at_start(RankState::setup), "timeout", 5),
                    at_start(RankState::setup)};
  EXPECT_EQ(blame_for_noticed(ranks).rank, 0);
}

TEST(NoticedFailure, CountsPhasesInsteadOfTrustingTheirNumbers) {
  // A parameter server's worker pulls before its forward, so a "later" phase proves nothing.
  const Ranks ranks{with_error(training(12, Phase::forward, 3), "timeout", 5),
                    training(12, Phase::pull, 1)};
  EXPECT_EQ(blame_for_noticed(ranks).rank, 1);
}

TEST(NoticedFailure, OfADeadlineStaysWithTheFirstThatNoticedAmongEquals) {
  const Ranks ranks{with_error(in_backward(), "timeout", 6),
                    with_error(in_backward(), "timeout", 5)};
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.kind, "timeout");
}

TEST(NoticedFailure, OfABrokenProtocolIsNotBlamedOnWhoHappensToBeBehind) {
  const Ranks ranks{with_error(in_backward(13), "comm", 5), in_backward(12)};
  EXPECT_EQ(blame_for_noticed(ranks).rank, 0);
}

TEST(NoticedFailure, IsNotBlamedOnAServerThatCountsNoSteps) {
  const Ranks ranks{with_error(training(12, Phase::pull, 7), "timeout", 5), in_backward(12),
                    server()};
  EXPECT_EQ(blame_for_noticed(ranks).rank, 1);
}

TEST(NoticedFailure, IsBlamedOnTheServerWhenAllWorkersWaitForIt) {
  const Ranks ranks{with_error(training(12, Phase::pull, 7), "timeout", 5),
                    training(12, Phase::pull, 7), server()};
  EXPECT_EQ(blame_for_noticed(ranks).rank, 2);
}

TEST(Stall, IsBlamedOnTheRankWithTheLeastProgress) {
  RankView fewer_buckets = in_backward(), fewer_collectives = in_backward(), first = in_backward();
  first.status.bucket = fewer_collectives.status.bucket = 4;
  first.status.collective = 9;
  fewer_collectives.status.collective = 8;
  fewer_buckets.status.bucket = 3;
  EXPECT_EQ(blame_for_stall(Ranks{first, in_backward(11), first}, 5).rank, 1);
  EXPECT_EQ(blame_for_stall(Ranks{first, training(12, Phase::forward, 3), first}, 5).rank, 1);
  EXPECT_EQ(blame_for_stall(Ranks{first, fewer_buckets, first}, 5).rank, 1);
  EXPECT_EQ(blame_for_stall(Ranks{first, fewer_collectives, first}, 5).rank, 1);
}

TEST(Stall, IsBlamedOnTheRankThatMovedLongestAgoAmongEquals) {
  Ranks ranks{in_backward(), in_backward(), in_backward()};
  ranks[0].last_progress_s = 3;
  ranks[1].last_progress_s = 2;
  ranks[2].last_progress_s = 4;
  const RunFailure failure = blame_for_stall(ranks, 5);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(
      failure.error.message,
      HasSubstr("rank 1 stands still in step 12 (backward): no rank made progress for 5 s"));
  EXPECT_THAT(failure.error.message, HasSubstr("--timeout"));
}

TEST(Stall, IsBlamedOnAStoppedRankBeforeAllOthers) {
  Ranks ranks{in_backward(11), in_backward(12)};
  ranks[1].stopped = true;
  EXPECT_EQ(blame_for_stall(ranks, 5).rank, 1);
}

TEST(Stall, IsNotBlamedOnARankThatHasEnded) {
  RankView finished = exited(in_backward(3), 0);
  finished.status.state = RankState::finished;
  EXPECT_EQ(blame_for_stall(Ranks{finished, in_backward(12)}, 5).rank, 1);
}

CallMark reduction(std::uint64_t number, int bucket = -1) {
  return {.number = number, .kind = comm::OperationKind::all_reduce, .bucket = bucket};
}

RankView waiting_in(CallMark call, CallMark completed = {}) {
  RankView view = in_backward();
  view.status.pending = call;
  view.status.completed = completed;
  return view;
}

// All have given up, and stand alike but for their calls.
TEST(Calls, TellWhoDidNotCome) {
  const auto gave_up = [](const RankView& view, double error_s) {
    return with_error(view, "timeout", error_s);
  };
  const RankView late = with_error(waiting_in({}, reduction(16)), "comm", 6);
  EXPECT_EQ(blame_for_noticed(Ranks{gave_up(waiting_in(reduction(17)), 5), late,
                                    gave_up(waiting_in(reduction(17)), 5)})
                .rank,
            1);
  // Ranks that all wait in the same call are told by nothing: the first that noticed counts.
  EXPECT_EQ(blame_for_noticed(
                Ranks{gave_up(waiting_in(reduction(17)), 7), gave_up(waiting_in(reduction(17)), 6)})
                .rank,
            1);
  // Worker 0 waits for server 2, which waits for worker 1.
  const auto recv = [](int peer) {
    return CallMark{.number = 9, .kind = comm::OperationKind::recv, .peer = peer};
  };
  EXPECT_EQ(blame_for_noticed(Ranks{gave_up(waiting_in(recv(2)), 5), waiting_in({}, reduction(3)),
                                    waiting_in(recv(1))})
                .rank,
            1);
}

TEST(Cause, OfARankWithAnErrorOfItsOwnIsThatError) {
  const auto own = find_cause(Ranks{with_error(waiting_in(reduction(17)), "device", 5)});
  EXPECT_EQ(own->error.message, "device message");
}

}  // namespace
}  // namespace ddpbench::launch
