// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank's channel shows of its calls, and when planted faults strike them.
#include "bench/measure/replica_recorder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/options/options.h"

namespace ddpbench::bench {
namespace {

comm::Operation reduction_of(int bucket) {
  comm::Operation operation;
  operation.kind = comm::OperationKind::all_reduce;
  operation.in = operation.out = {nullptr, 100, DataType::fp32};
  operation.bucket = bucket;
  return operation;
}

comm::Operation receipt_from(int peer, std::size_t count) {
  comm::Operation operation;
  operation.kind = comm::OperationKind::recv;
  operation.root = peer;
  operation.out = {nullptr, count, DataType::fp32};
  return operation;
}

class Marks : public testing::Test {
 protected:
  CallMarks marks_with(const std::string& fault) { return {writer, {parse_injection(fault, "")}}; }
  launch::RankStatus status() const { return channels.status(0); }
  launch::RankChannels channels = launch::RankChannels::create({.ranks = 1});
  launch::RankWriter writer = channels.writer(0);
  CallMarks marks{writer, {}};
};

TEST_F(Marks, ShowTheLastCompletedAndThePendingCall) {
  EXPECT_EQ(status().completed.number, 0U);
  EXPECT_EQ(status().pending.number, 0U);
  marks.begun(reduction_of(-1));
  marks.done(reduction_of(-1));
  marks.begun(reduction_of(7));
  EXPECT_EQ(status().completed.number, 1U);
  EXPECT_EQ(status().completed.bucket, -1);
  const launch::CallMark pending = status().pending;
  EXPECT_EQ(pending.number, 2U);
  EXPECT_EQ(pending.kind, comm::OperationKind::all_reduce);
  EXPECT_EQ(pending.bucket, 7);
  EXPECT_EQ(pending.peer, -1);
  EXPECT_EQ(pending.bytes, 400U);
  marks.done(reduction_of(7));
  EXPECT_EQ(status().completed.bucket, 7);
  EXPECT_EQ(status().pending.number, 0U);
}

TEST_F(Marks, ShowTheOldestMessageThatIsPending) {
  marks.begun(receipt_from(2, 5));
  marks.begun(receipt_from(1, 6));
  marks.begun(receipt_from(2, 7));
  EXPECT_EQ(status().pending.peer, 2);
  marks.done(receipt_from(1, 6));
  EXPECT_EQ(status().completed.peer, 1);
  EXPECT_EQ(status().pending.number, 1U);
  EXPECT_EQ(status().pending.bytes, 20U);
  marks.done(receipt_from(2, 5));
  EXPECT_EQ(status().pending.number, 2U) << "the second from rank 2";
}

TEST_F(Marks, StallOnceInTheirStep) {
  CallMarks stalled = marks_with("stall:rank=0,step=1,ms=250");
  EXPECT_EQ(stalled.hold_up_s(), 0) << "during setup";
  stalled.begin_step();
  EXPECT_EQ(stalled.hold_up_s(), 0);
  stalled.begin_step();
  EXPECT_DOUBLE_EQ(stalled.hold_up_s(), 0.25);
  EXPECT_EQ(stalled.hold_up_s(), 0);
  CallMarks for_ever = marks_with("stall:rank=0,step=0");
  for_ever.begin_step();
  EXPECT_TRUE(std::isinf(for_ever.hold_up_s()));
}

TEST_F(Marks, SlowEachCallOfTheirSteps) {
  CallMarks slow = marks_with("slow:ms=20");
  EXPECT_EQ(slow.hold_up_s(), 0) << "during setup";
  slow.begin_step();
  EXPECT_DOUBLE_EQ(slow.hold_up_s(), 0.02);
  EXPECT_DOUBLE_EQ(slow.hold_up_s(), 0.02);
  CallMarks once = marks_with("slow:rank=0,step=1,ms=20");
  once.begin_step();
  EXPECT_EQ(once.hold_up_s(), 0);
  once.begin_step();
  EXPECT_DOUBLE_EQ(once.hold_up_s(), 0.02);
}

TEST(StrikesCalls, LeavesPhasesToOthers) {
  EXPECT_FALSE(strikes_calls(parse_injection("slow:phase=forward,ms=3", "")));
  EXPECT_FALSE(strikes_calls(parse_injection("kill:rank=0,step=1", "")));
  EXPECT_TRUE(strikes_calls(parse_injection("slow:ms=3", "")));
}

}  // namespace
}  // namespace ddpbench::bench
