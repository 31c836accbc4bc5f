// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank writes on one host is what the channels of another host show.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::launch {
namespace {

const ChannelLayout kLayout{.ranks = 2,
                            .step_capacity = 40'000,
                            .bucket_capacity = 10,
                            .replica_capacity = 4,
                            .trace_capacity = 4,
                            .result_capacity = 64};

class Mirrored : public testing::Test {
 protected:
  std::size_t carry() {
    std::size_t bytes = 0;
    for (const std::string& message : mirror.take()) {
      apply_mirrored(message, there.area(1));
      bytes += message.size();
    }
    return bytes;
  }
  RankChannels here = RankChannels::create(kLayout), there = RankChannels::create(kLayout);
  RankWriter writer = here.writer(1);
  RankMirror mirror{here.area(1)};
};

TEST_F(Mirrored, ShowsStateRecordsAndResult) {
  writer.state(RankState::training);
  writer.begin_step(0, 7);
  writer.append(StepRecord{.step = 3, .end_s = 0.5});
  BucketRecord bucket;
  bucket.times.bucket = 2;
  writer.append(bucket);
  writer.append(TraceRecord{.which = 9});
  writer.result("first");
  carry();
  EXPECT_EQ(there.status(1).state, RankState::training);
  EXPECT_EQ(there.status(1).step, 7U);
  ASSERT_EQ(there.steps(1).size(), 1U);
  EXPECT_EQ(there.steps(1)[0].step, 3U);
  ASSERT_EQ(there.buckets(1).size(), 1U);
  EXPECT_EQ(there.buckets(1)[0].times.bucket, 2U);
  ASSERT_EQ(there.trace(1).size(), 1U);
  EXPECT_EQ(there.trace(1)[0].which, 9U);
  EXPECT_EQ(there.result(1), "first");
  EXPECT_FALSE(there.status(1).error);
  EXPECT_EQ(there.status(0).state, RankState::starting) << "another rank's";
}

TEST_F(Mirrored, SendsWhatIsNewAlone) {
  for (std::uint32_t step = 0; step < 1000; ++step) writer.append(StepRecord{.step = step});
  EXPECT_GT(carry(), 1000 * sizeof(StepRecord));
  writer.append(StepRecord{.step = 1000});
  writer.result("later");
  EXPECT_LT(carry(), 2000U);
  ASSERT_EQ(there.steps(1).size(), 1001U);
  EXPECT_EQ(there.steps(1)[1000].step, 1000U);
  EXPECT_EQ(there.result(1), "later");
}

TEST_F(Mirrored, TakesAResultOfOneMomentThoughTheRankWritesTheNext) {
  std::atomic<bool> ends{false};
  std::thread rank([&] {
    for (char letter = 'a'; !ends; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
      writer.result(std::string(static_cast<std::size_t>(letter - 'a') + 30, letter));
    }
  });
  for (int round = 0; round < 2000; ++round) {
    carry();
    const std::string result = there.result(1);
    const std::size_t length = result.empty() ? 0 : static_cast<std::size_t>(result[0] - 'a') + 30;
    if (result == std::string(length, result[0])) continue;
    ADD_FAILURE() << "of several moments: " << result;
    break;
  }
  ends = true;
  rank.join();
}

TEST_F(Mirrored, CutsManyRecordsIntoMessages) {
  for (std::uint32_t step = 0; step < 50'000; ++step) writer.append(StepRecord{.step = step});
  const auto messages = mirror.take();
  EXPECT_GT(messages.size(), 1U);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_LT(messages[i].size(), std::size_t{5} << 20);
    EXPECT_TRUE(there.steps(1).empty()) << "the counts come last";
    apply_mirrored(messages[i], there.area(1));
  }
  ASSERT_EQ(there.steps(1).size(), 40'000U);
  EXPECT_EQ(there.steps(1)[39'999].step, 39'999U);
}

TEST_F(Mirrored, ShowsAnError) {
  writer.error(
      {.kind = "device", .message = "it broke", .operation = "all_reduce", .exit_code = 4});
  carry();
  ASSERT_TRUE(there.status(1).error);
  EXPECT_EQ(there.status(1).error->message, "it broke");
  EXPECT_EQ(there.status(1).error->exit_code, 4);
}

TEST_F(Mirrored, RefusesMessagesThatDoNotFit) {
  writer.append(StepRecord{});
  const std::string message = mirror.take().at(0);
  EXPECT_THROW(apply_mirrored(message, there.area(1).first(100)), CommError);
  EXPECT_THROW(apply_mirrored(message.substr(0, message.size() - 1), there.area(1)), CommError);
  EXPECT_THROW(apply_mirrored("short", there.area(1)), CommError);
}

}  // namespace
}  // namespace ddpbench::launch
