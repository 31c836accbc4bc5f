// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankChannels: what a rank writes is what the supervisor reads, also when the rank is gone.
#include "parallel/launch/rank_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

// Runs `body` in a forked child and then kills the child, as a rank may be killed.
void in_killed_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed before its end";
}

StepRecord step_record(std::uint32_t step) {
  StepRecord record;
  record.step = step;
  record.begin_s = step;
  record.end_s = step + 0.5;
  record.phase_s[static_cast<std::size_t>(Phase::backward)] = 0.25;
  return record;
}

BucketRecord bucket_record(std::uint32_t step) {
  BucketRecord record;
  record.step = step;
  record.times.bucket = step + 1;
  record.times.end_s = step + 2;
  return record;
}

TEST(RankChannels, ShowAFreshRankAsStarting) {
  const RankChannels channels = RankChannels::create({.ranks = 2});
  const RankStatus status = channels.status(1);
  EXPECT_EQ(status.state, RankState::starting);
  EXPECT_EQ(status.phase, kPhaseCount);
  EXPECT_EQ(status.heartbeat, 0U);
  EXPECT_EQ(status.ready_s, 0);
  EXPECT_FALSE(status.error);
  EXPECT_TRUE(channels.steps(1).empty());
  EXPECT_EQ(channels.result(1), "");
}

TEST(RankChannels, KeepWhatARankWroteAfterItWasKilled) {
  RankChannels channels = RankChannels::create({3, 8, 8, 100});
  in_killed_child([&] {
    RankChannels mine = RankChannels::adopt(::dup(channels.fd()));
    RankWriter writer = mine.writer(1);
    writer.state(RankState::training);
    writer.begin_step(2, 7);
    writer.phase(static_cast<std::uint32_t>(Phase::backward));
    writer.bucket_done();
    writer.collective();
    writer.calls({.number = 40, .kind = comm::OperationKind::broadcast, .bytes = 1UL << 40},
                 {.number = 3, .kind = comm::OperationKind::recv, .bucket = 300, .peer = 7});
    writer.append(step_record(4));
    writer.append(bucket_record(5));
    writer.append(bucket_record(6));
    writer.result(R"({"loss": 1})");
  });
  const RankStatus status = channels.status(1);
  EXPECT_EQ(status.state, RankState::training);
  EXPECT_EQ(status.epoch, 2U);
  EXPECT_EQ(status.step, 7U);
  EXPECT_EQ(status.phase, static_cast<std::uint32_t>(Phase::backward));
  EXPECT_EQ(status.phase_marks, 1U);
  EXPECT_EQ(status.bucket, 1U);
  EXPECT_EQ(status.collective, 1U);
  EXPECT_EQ(status.completed.number, 40U);
  EXPECT_EQ(status.completed.kind, comm::OperationKind::broadcast);
  EXPECT_EQ(status.completed.bytes, 1UL << 40);
  EXPECT_EQ(status.completed.bucket, -1);
  EXPECT_EQ(status.completed.peer, -1);
  EXPECT_EQ(status.pending.kind, comm::OperationKind::recv);
  EXPECT_EQ(status.pending.bucket, 300);
  EXPECT_EQ(status.pending.peer, 7);
  EXPECT_GT(status.ready_s, 0);
  ASSERT_EQ(channels.steps(1).size(), 1U);
  EXPECT_EQ(channels.steps(1)[0].end_s, 4.5);
  EXPECT_EQ(channels.steps(1)[0].phase_s[static_cast<std::size_t>(Phase::backward)], 0.25);
  ASSERT_EQ(channels.buckets(1).size(), 2U);
  EXPECT_EQ(channels.buckets(1)[1].times.bucket, 7U);
  EXPECT_EQ(channels.result(1), R"({"loss": 1})");
  EXPECT_EQ(channels.status(0).heartbeat, 0U) << "a neighbour was written to";
  EXPECT_EQ(channels.status(2).heartbeat, 0U) << "a neighbour was written to";
}

TEST(RankChannels, GrowTheHeartbeatWithEverySignOfProgress) {
  RankChannels channels = RankChannels::create({});
  RankWriter writer = channels.writer(0);
  std::set<std::uint64_t> beats;
  const auto note = [&] { beats.insert(channels.status(0).heartbeat); };
  writer.state(RankState::setup), note();
  writer.begin_step(0, 1), note();
  writer.phase(0), note();
  writer.bucket_done(), note();
  writer.collective(), note();
  EXPECT_EQ(beats.size(), 5U);
  EXPECT_FALSE(beats.contains(0));
}

TEST(RankChannels, CountPhaseMarksFromEachStepsBeginning) {
  RankChannels channels = RankChannels::create({});
  RankWriter writer = channels.writer(0);
  writer.begin_step(0, 1);
  writer.phase(3);
  writer.phase(kPhaseCount);
  EXPECT_EQ(channels.status(0).phase_marks, 2U);
  writer.begin_step(0, 2);
  EXPECT_EQ(channels.status(0).phase_marks, 0U);
  EXPECT_EQ(channels.status(0).phase, kPhaseCount);
}

TEST(RankChannels, StampTheMomentAtWhichSetupEndedOnce) {
  RankChannels channels = RankChannels::create({});
  RankWriter writer = channels.writer(0);
  writer.state(RankState::setup);
  EXPECT_EQ(channels.status(0).ready_s, 0);
  writer.state(RankState::verifying);
  const double ready_s = channels.status(0).ready_s;
  EXPECT_GT(ready_s, 0);
  writer.state(RankState::training);
  EXPECT_EQ(channels.status(0).ready_s, ready_s);
}

TEST(RankChannels, DropRecordsBeyondTheCapacity) {
  RankChannels channels = RankChannels::create({1, 2, 1, 0});
  RankWriter writer = channels.writer(0);
  for (std::uint32_t i = 0; i < 5; ++i) {
    writer.append(step_record(i));
    writer.append(bucket_record(i));
  }
  ASSERT_EQ(channels.steps(0).size(), 2U);
  EXPECT_EQ(channels.steps(0)[1].step, 1U);
  ASSERT_EQ(channels.buckets(0).size(), 1U);
  EXPECT_EQ(channels.buckets(0)[0].times.bucket, 1U) << "a dropped step was written over it";
}

TEST(RankChannels, KeepTraceRecordsApartFromBucketsAndResults) {
  RankChannels channels = RankChannels::create(
      {.ranks = 2, .bucket_capacity = 3, .trace_capacity = 2, .result_capacity = 8});
  for (const int rank : {0, 1}) {
    RankWriter writer = channels.writer(rank);
    writer.result("result");
    for (std::uint32_t i = 0; i < 3; ++i) {
      writer.append(bucket_record(i));
      writer.append(TraceRecord{.step = i, .which = 7 + i, .end_s = 1});
    }
  }
  ASSERT_EQ(channels.trace(0).size(), 2U);
  EXPECT_EQ(channels.trace(0)[1].which, 8U);
  EXPECT_EQ(channels.dropped_trace(0), 1U);
  EXPECT_EQ(channels.buckets(0)[2].times.bucket, 3U);
  EXPECT_EQ(channels.result(0), "result");
  EXPECT_EQ(channels.result(1), "result");
}

TEST(RankChannels, TakeResultsUpToTheCapacityAndRefuseLongerOnes) {
  RankChannels channels = RankChannels::create({.result_capacity = 5});
  RankWriter writer = channels.writer(0);
  writer.result("12345");
  EXPECT_EQ(channels.result(0), "12345");
  EXPECT_THROW(writer.result("123456"), InternalError);
  EXPECT_EQ(channels.result(0), "12345");
  writer.result("");
  EXPECT_EQ(channels.result(0), "");
}

TEST(RankChannels, ReplaceResultsAsOftenAsWanted) {
  RankChannels channels = RankChannels::create({.result_capacity = 64});
  RankWriter writer = channels.writer(0);
  for (int i = 0; i < 7; ++i) {
    writer.result(std::string(static_cast<std::size_t>(i), 'x'));
    EXPECT_EQ(channels.result(0).size(), static_cast<std::size_t>(i));
  }
}

TEST(RankChannels, AreReadWithinTheirBoundsWhateverARankWrote) {
  RankChannels channels = RankChannels::create({.ranks = 2, .step_capacity = 2});
  std::ranges::fill(channels.area(0), std::byte{0xFF});
  EXPECT_EQ(channels.status(0).error->kind.size(), 32U);
  EXPECT_EQ(channels.steps(0).size(), 2U);
  EXPECT_TRUE(channels.buckets(0).empty());
  EXPECT_LE(channels.result(0).size(), channels.layout().result_capacity);
  EXPECT_EQ(channels.layout().ranks, 2);
  EXPECT_TRUE(channels.steps(1).empty());
}

// A rank that is killed while it writes a result must leave the one before it.
TEST(RankChannels, WriteANewResultBesideTheLastOne) {
  RankChannels channels = RankChannels::create({.result_capacity = 64});
  RankWriter writer = channels.writer(0);
  writer.result("the first");
  writer.result("the second");
  const std::span<std::byte> area = channels.area(0);
  const std::string_view bytes(reinterpret_cast<const char*>(area.data()), area.size());
  EXPECT_THAT(bytes, testing::HasSubstr("the first"));
  EXPECT_EQ(channels.result(0), "the second");
}

TEST(RankChannels, KeepTheFirstError) {
  RankChannels channels = RankChannels::create({});
  RankWriter writer = channels.writer(0);
  writer.error({"config", "no such file", "load", 2});
  writer.error({"internal", "while unwinding", "", 1});
  const RankStatus status = channels.status(0);
  ASSERT_TRUE(status.error);
  EXPECT_EQ(status.error->kind, "config");
  EXPECT_EQ(status.error->message, "no such file");
  EXPECT_EQ(status.error->operation, "load");
  EXPECT_EQ(status.error->exit_code, 2);
  EXPECT_EQ(status.state, RankState::failed);
  EXPECT_GT(status.error_s, 0);
}

TEST(RankChannels, CutALongMessageBetweenCharacters) {
  RankChannels channels = RankChannels::create({});
  std::string message = "x";  // one byte, so that the two-byte characters straddle the field's end
  for (int i = 0; i < 5'000; ++i) message += "ä";
  channels.writer(0).error({"internal", message, "", 1});
  const std::string kept = channels.status(0).error->message;
  EXPECT_GT(kept.size(), 1'000U);
  EXPECT_EQ(kept.size() % 2, 1U) << "ends within a character";
  EXPECT_EQ(message.substr(0, kept.size()), kept);
}

TEST(RankChannels, CarryARanksAreaAsBytes) {
  const ChannelLayout layout{2, 4, 4, 64};
  RankChannels there = RankChannels::create(layout), here = RankChannels::create(layout);
  RankWriter writer = there.writer(1);
  writer.append(step_record(3));
  writer.result("gathered");
  ASSERT_EQ(here.area(1).size(), RankChannels::bytes_per_rank(layout));
  std::memcpy(here.area(1).data(), there.area(1).data(), here.area(1).size());
  EXPECT_EQ(here.steps(1).size(), 1U);
  EXPECT_EQ(here.result(1), "gathered");
  EXPECT_TRUE(here.steps(0).empty());
}

TEST(RankChannels, AlignEveryRankToACacheLine) {
  RankChannels channels = RankChannels::create({3, 1, 1, 3});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(channels.area(rank).data()) % 64, 0U) << rank;
  }
}

TEST(RankChannels, RefuseRanksAndDescriptorsThatAreNotTheirs) {
  RankChannels channels = RankChannels::create({.ranks = 2});
  EXPECT_THROW(channels.writer(2), InternalError);
  EXPECT_THROW(channels.status(-1), InternalError);
  EXPECT_THROW(RankChannels::create({.ranks = 0}), InternalError);
  const SharedMemory other = SharedMemory::create("ddpbench-test", 4096);
  EXPECT_THROW(RankChannels::adopt(::dup(other.fd())), InternalError);
  const SharedMemory tiny = SharedMemory::create("ddpbench-test", 1);
  EXPECT_THROW(RankChannels::adopt(::dup(tiny.fd())), InternalError);
}

}  // namespace
}  // namespace ddpbench::launch
