// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a run of a joined world ended, and which rank says it.
#include "bench/joined/joined_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using launch::RankState;
using launch::RankView;
using testing::HasSubstr;

RankView at_work(std::uint64_t step = 5) {
  RankView view;
  view.status.state = RankState::training;
  view.status.step = step;
  return view;
}

RankView failed(const char* kind, double error_s = 1) {
  RankView view = at_work();
  view.status.state = RankState::failed;
  view.status.error_s = error_s;
  view.status.error = launch::RankError{kind, std::string(kind) + " error", "all_reduce", 4};
  return view;
}

RankView ended() {
  RankView view = at_work();
  view.exit = launch::ChildExit{.is_known = false};
  view.deserted = true;
  return view;
}

TEST(JoinedVerdict, BlamesTheRankThatThrewAndNotThoseThatNoticed) {
  const Verdict verdict = judge_world({.ranks = {failed("comm", 1), failed("device", 2)}});
  ASSERT_TRUE(verdict.result.failure);
  EXPECT_EQ(verdict.result.failure->rank, 1);
  EXPECT_EQ(verdict.result.failure->error.kind, "device");
  EXPECT_TRUE(verdict.certain);
}

TEST(JoinedVerdict, BlamesTheRankWhoseProcessHasEndedAlsoWhenTheLauncherThenEndsTheOthers) {
  for (const bool told_to_end : {false, true}) {
    std::optional<Interruption> told;
    if (told_to_end) told = Interruption{0, SIGTERM};
    const Verdict verdict = judge_world({.ranks = {failed("comm"), ended()}, .interruption = told});
    ASSERT_TRUE(verdict.result.failure) << told_to_end;
    EXPECT_EQ(verdict.result.failure->rank, 1);
    EXPECT_EQ(verdict.result.failure->error.operation, "all_reduce");
    EXPECT_FALSE(verdict.result.interrupted);
    EXPECT_TRUE(verdict.certain);
  }
}

TEST(JoinedVerdict, BlamesAStoppedRankAndTheOneThatIsBehind) {
  RankView stopped = at_work();
  stopped.stopped = true;
  Verdict verdict = judge_world({.ranks = {failed("timeout"), stopped}});
  EXPECT_EQ(verdict.result.failure->rank, 1);
  EXPECT_THAT(verdict.result.failure->error.message, HasSubstr("is stopped"));
  RankView witness = failed("timeout");
  witness.status.step = 6;
  verdict = judge_world({.ranks = {witness, at_work(5)}});
  EXPECT_EQ(verdict.result.failure->rank, 1);
  EXPECT_FALSE(verdict.certain) << "its own error may follow";
}

TEST(JoinedVerdict, IsAnInterruptionThatNamesTheRankAndTheSignal) {
  const Verdict verdict = judge_world(
      {.ranks = {failed("comm", 1), failed("interrupted", 2)}, .interruption = {{1, SIGTERM}}});
  EXPECT_TRUE(verdict.result.interrupted);
  EXPECT_TRUE(verdict.certain);
  ASSERT_TRUE(verdict.result.failure);
  EXPECT_EQ(verdict.result.failure->rank, 1);
  EXPECT_EQ(verdict.result.failure->signal, SIGTERM);
  EXPECT_EQ(verdict.result.failure->error.kind, "signal");
  EXPECT_EQ(verdict.result.failure->error.message, "rank 1 was asked to end by SIGTERM");
}

// The launcher's signal was there before the news of the rank that it has lost.
TEST(JoinedVerdict, OfAnInterruptionGivesWayToAFailureThatIsSeenLater) {
  const Interruption told{0, SIGTERM};
  const auto judge = [&](launch::RankView other) {
    return judge_world({.ranks = {failed("interrupted"), std::move(other)}, .interruption = told});
  };
  Verdict verdict = judge({});
  ASSERT_TRUE(verdict.result.interrupted);
  take_later(verdict, judge(failed("interrupted")));
  EXPECT_TRUE(verdict.result.interrupted);
  take_later(verdict, judge(ended()));
  EXPECT_FALSE(verdict.result.interrupted);
  EXPECT_EQ(verdict.result.failure->rank, 1);
  take_later(verdict, judge({}));
  EXPECT_FALSE(verdict.result.interrupted) << "what is certain stays";
}

TEST(JoinedVerdict, IsAnInterruptionAlsoWhereTheRankEndedBeforeItSaidWhy) {
  const Verdict verdict =
      judge_world({.ranks = {failed("comm"), ended()}, .interruption = Interruption{1, SIGTERM}});
  EXPECT_TRUE(verdict.result.interrupted);
  EXPECT_EQ(verdict.result.failure->rank, 1);
  RankView crashed = ended();
  crashed.exit = launch::ChildExit{.signal = SIGSEGV};
  EXPECT_FALSE(
      judge_world({.ranks = {failed("comm"), crashed}, .interruption = Interruption{1, SIGTERM}})
          .result.interrupted);
}

TEST(JoinedVerdict, SeesAnInterruptionInTheExitCodeOfARankWhoseErrorCannotBeRead) {
  RankView told = ended();
  told.exit->code = 130;
  const Verdict verdict = judge_world({.ranks = {failed("comm"), told}});
  EXPECT_TRUE(verdict.result.interrupted);
  EXPECT_EQ(verdict.result.failure->rank, 1);
  EXPECT_EQ(verdict.result.failure->signal, 0) << "which it was is not known";
}

TEST(JoinedVerdict, IsAFailureWhereALauncherEndsTheOthersAfterAStall) {
  RankView stopped = at_work();
  stopped.stopped = true;
  const Verdict verdict =
      judge_world({.ranks = {failed("timeout", 1), stopped, failed("interrupted", 2)}});
  EXPECT_FALSE(verdict.result.interrupted);
  EXPECT_EQ(verdict.result.failure->rank, 1);
}

TEST(JoinedVerdict, SaysByWhichSignalARankWasKilledWhereThatIsKnown) {
  RankView killed = ended();
  killed.exit->signal = SIGKILL;
  const Verdict verdict = judge_world({.ranks = {failed("comm"), killed}});
  EXPECT_EQ(verdict.result.failure->signal, SIGKILL);
  EXPECT_EQ(verdict.result.failure->error.kind, "signal");
  EXPECT_EQ(verdict.result.failure->error.operation, "all_reduce");
  EXPECT_THAT(verdict.result.failure->error.message, HasSubstr("rank 1 was killed by SIGKILL"));
  const Verdict unknown = judge_world({.ranks = {failed("comm"), ended()}});
  EXPECT_EQ(unknown.result.failure->error.kind, "exit");
  EXPECT_THAT(unknown.result.failure->error.message, HasSubstr("known to its launcher only"));
}

TEST(JoinedVerdict, KnowsARankThatASignalMadeGiveUpByItsWords) {
  EXPECT_TRUE(is_given_up_by_signal(CommAborted("all_reduce: aborted by rank 1", "interrupted")));
  EXPECT_FALSE(is_given_up_by_signal(CommAborted("all_reduce: aborted by rank 1", "no memory")));
  EXPECT_FALSE(is_given_up_by_signal(CommError("interrupted")));
}

TEST(JoinedVerdict, IsNoFailureOfARunThatWasComplete) {
  RankView done = ended();
  done.deserted = false;
  done.status.state = RankState::finished;
  const Verdict verdict = judge_world({.ranks = {done, failed("comm")}, .complete = true});
  EXPECT_FALSE(verdict.result.failure);
  EXPECT_FALSE(verdict.result.interrupted);
}

TEST(JoinedVerdict, AllHaveSettledWhenEachOtherRankIsOver) {
  EXPECT_FALSE(has_settled({at_work(), at_work()}, 0));
  EXPECT_TRUE(has_settled({at_work(), failed("comm"), ended()}, 0));
}

TEST(JoinedBoard, GivesTheReportToOneRankAndPassesItOnWhenThatIsGone) {
  JoinedBoard made = JoinedBoard::create();
  JoinedBoard board = JoinedBoard::open(made.handle());
  int gone = -1;
  const auto is_gone = [&gone](int rank) { return rank == gone; };
  EXPECT_TRUE(made.take_report(0, is_gone));
  EXPECT_FALSE(board.take_report(1, is_gone));
  EXPECT_TRUE(made.take_report(0, is_gone)) << "it still has it";
  gone = 0;
  EXPECT_TRUE(board.take_report(1, is_gone));
  EXPECT_FALSE(board.take_report(2, is_gone));
}

TEST(JoinedBoard, TellsAllRanksWhatOneSays) {
  JoinedBoard made = JoinedBoard::create();
  const JoinedBoard board = JoinedBoard::open(made.handle());
  EXPECT_EQ(board.report_path(), "");
  EXPECT_FALSE(board.is_written() || board.is_complete() || board.interruption());
  made.tell_report_path("/a/report.json");
  made.mark_interrupted(2, SIGTERM);
  made.mark_interrupted(1, SIGINT);
  made.mark_complete();
  made.mark_written();
  EXPECT_EQ(board.report_path(), "/a/report.json");
  ASSERT_TRUE(board.interruption());
  EXPECT_EQ(board.interruption()->rank, 2) << "the first counts";
  EXPECT_EQ(board.interruption()->signal, SIGTERM);
  EXPECT_TRUE(board.is_complete() && board.is_written());
  EXPECT_THROW(made.tell_report_path(std::string(5000, 'p')), ConfigError);
}

TEST(JoinedBoard, TakesASignalAfterAFailureForTheLaunchersCleaningUp) {
  JoinedBoard board = JoinedBoard::create();
  board.mark_failed(1);
  board.mark_interrupted(0, SIGTERM);
  EXPECT_FALSE(board.interruption());
}

}  // namespace
}  // namespace ddpbench::bench
