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
using Ranks = std::vector<RankSight>;

RankSight training(std::uint64_t step, Phase phase, std::uint64_t phase_marks) {
  RankSight sight;
  sight.status.state = RankState::training;
  sight.status.step = step;
  sight.status.phase = static_cast<std::uint32_t>(phase);
  sight.status.phase_marks = phase_marks;
  return sight;
}

RankSight in_backward(std::uint64_t step = 12) { return training(step, Phase::backward, 5); }

RankSight with_error(RankSight sight, const std::string& kind, double error_s) {
  sight.status.state = RankState::failed;
  sight.status.error_s = error_s;
  sight.status.error = RankError{kind, kind + " message", "all_reduce", 4};
  return sight;
}

RankSight killed(RankSight sight, int signal) {
  sight.exit = ChildExit{0, signal, 0};
  return sight;
}

RankSight exited(RankSight sight, int code) {
  sight.exit = ChildExit{code, 0, 0};
  return sight;
}

RankSight server() {
  RankSight sight;
  sight.status.state = RankState::training;
  return sight;
}

TEST(FailureCause, NamesARankThatDesertedAfterItsLastStep) {
  RankSight gone = exited(in_backward(), 0);
  gone.status.state = RankState::finished;
  const RankSight witness = with_error(in_backward(), "comm", 1);
  EXPECT_EQ(blame_for_noticed(Ranks{witness, gone}).rank, 0);
  gone.deserted = true;
  const RunFailure failure = blame_for_noticed(Ranks{witness, gone});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.error.message, HasSubstr("rank 1 ended after its last step though others"));
  EXPECT_EQ(failure.error.operation, "all_reduce");
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
  RankSight sight;
  sight.status.state = RankState::setup;
  const auto failure = find_cause(Ranks{exited(sight, 3)});
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
  RankSight finished = exited(in_backward(), 0);
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

RankSight at_start(RankState state) {
  RankSight sight;
  sight.status.state = state;
  return sight;
}

TEST(NoticedFailure, OfRanksThatMeetIsBlamedOnTheOneThatHasNotEvenBegun) {
  Ranks ranks{with_error(at_start(RankState::setup), "timeout", 5), at_start(RankState::setup),
              at_start(RankState::starting)};
  ranks[2].activity = "asleep after 0.12 s of processor time";
  const RunFailure failure = blame_for_noticed(ranks);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_THAT(failure.error.message,
              HasSubstr("rank 2 stands still while starting, behind the others (its process is "
                        "asleep after 0.12 s of processor time); rank 0 noticed"));
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
  RankSight fewer_buckets = in_backward(), fewer_collectives = in_backward(), first = in_backward();
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
  RankSight finished = exited(in_backward(3), 0);
  finished.status.state = RankState::finished;
  EXPECT_EQ(blame_for_stall(Ranks{finished, in_backward(12)}, 5).rank, 1);
}

}  // namespace
}  // namespace ddpbench::launch
