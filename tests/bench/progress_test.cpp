// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/progress.h"

#include <gmock/gmock.h>

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

class ProgressLine : public testing::Test {
 protected:
  ProgressLine()
      : channels(launch::RankChannels::create({.ranks = 1, .step_capacity = 100})),
        writer(channels.writer(0)) {
    job.per_device_batch = 32;
    job.steps_per_epoch = 6;
    job.options.epochs = 2;
    job.options.verify_steps = 0;
    job.options.warmup_steps = 0;
  }

  // Reports so many timed steps as done.
  void train(int steps) {
    writer.state(launch::RankState::training);
    for (int i = 0; i < steps; ++i) {
      writer.begin_step(static_cast<std::uint32_t>(i / job.steps_per_epoch),
                        static_cast<std::uint64_t>(i + 1));
      writer.append(launch::StepRecord{});
    }
  }

  std::string shown(Progress::Style style) {
    Progress progress(style);
    testing::internal::CaptureStdout();
    progress.begin(job, "ddp on 2 devices");
    progress.update(channels);
    return testing::internal::GetCapturedStdout();
  }

  TrainingJob job;
  launch::RankChannels channels;
  launch::RankWriter writer;
};

TEST_F(ProgressLine, ShowsEpochStepRateAndTimeLeftOnATerminal) {
  train(8);
  const std::string line = shown(Progress::Style::redraw);
  EXPECT_THAT(line, testing::StartsWith("\r"));
  EXPECT_THAT(line, HasSubstr("ddp on 2 devices: training epoch 2/2 step 3/6"));
  EXPECT_THAT(line, HasSubstr("samples/s, ETA 0 s"));
}

TEST_F(ProgressLine, RedrawsNothingWhereOutputIsNoTerminal) {
  train(3);
  EXPECT_EQ(shown(Progress::Style::lines), "ddp on 2 devices\n");  // lines follow after seconds
}

TEST_F(ProgressLine, IsSilentWhenAskedToBe) {
  train(3);
  EXPECT_EQ(shown(Progress::Style::quiet), "");
}

}  // namespace
}  // namespace ddpbench::bench
