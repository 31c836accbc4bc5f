// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Readings of the training loss on a device whose work is done later than it is queued.
#include "bench/measure/loss_progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/bench/queued_device.h"

namespace ddpbench::bench {
namespace {

using test::QueuedDevice;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A training of steps of 4 labels, whose step n has a loss of n a label and n % 5 hits.
class CourseOfLoss : public testing::TestWithParam<unsigned> {
 protected:
  LossProgress progress(std::int64_t count) {
    return {device, *stream, memory.view(), writer, count};
  }
  ops::LossTotals& totals() { return *memory.view().as<ops::LossTotals>().data(); }

  void step(LossProgress& progress) {
    const std::uint64_t number = ++steps;
    test::queue_work(*stream, [this, number] {
      totals().loss_sum += number == bad_step ? kNoNumber : 4 * static_cast<double>(number);
      totals().correct += number % 5;
      totals().counted += 4;
    });
    progress.end_step();
  }
  void end_epoch(LossProgress& progress) {
    stream->synchronize();
    const ops::LossTotals taken = totals();
    totals() = {};
    progress.end_epoch(taken);
  }

  QueuedDevice device{GetParam()};
  std::unique_ptr<Stream> stream = device.make_stream();
  Buffer memory =
      device.allocate(sizeof(ops::LossTotals), MemoryCategory::workspace, Sharing::process_private);
  launch::RankChannels channels = launch::RankChannels::create({.ranks = 1});
  launch::RankWriter writer = channels.writer(0);
  std::uint64_t steps = 0, bad_step = 0;
};

INSTANTIATE_TEST_SUITE_P(Orders, CourseOfLoss, testing::Range(0U, 4U));

TEST_P(CourseOfLoss, HasAPointOfEveryStepOfAShortRunOverItsEpochs) {
  LossProgress course = progress(6);
  ASSERT_EQ(course.interval(), 1);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 3; ++i) {
      step(course);
      device.run_one();  // the host is at most some steps ahead
      device.run_one();
      device.run_one();
    }
    end_epoch(course);
  }
  ASSERT_EQ(course.points().size(), 6u);
  double sum = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const LossPoint& point = course.points()[i];
    sum += 4.0 * static_cast<double>(i + 1);
    EXPECT_EQ(point.step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(point.loss_sum, sum);
    EXPECT_EQ(point.counted, 4 * (i + 1));
  }
  EXPECT_EQ(course.points().back().correct, 1u + 2 + 3 + 4 + 0 + 1);
  EXPECT_EQ(channels.status(0).loss, 6);  // of the last step alone
}

TEST_P(CourseOfLoss, HasAtMostTheMostPointsHoweverManyStepsThereAre) {
  for (const std::int64_t count : {499, 500, 501, 3001}) {
    LossProgress course = progress(count);
    for (std::int64_t i = 0; i < count; ++i) {
      step(course);
      stream->synchronize();
    }
    end_epoch(course);
    EXPECT_LE(std::ssize(course.points()), LossProgress::kMostPoints) << count;
    EXPECT_GT(std::ssize(course.points()), std::min(count, LossProgress::kMostPoints) / 2 - 1);
    EXPECT_EQ(course.points().front().step, course.interval());
  }
}

TEST_P(CourseOfLoss, ReadsSeldomWhereAReadingTakesLongBesideAStep) {
  device.work_s = 1e-6;
  LossProgress course = progress(100);
  const double reading_s = device.work_s;  // a copy
  course.choose_interval(reading_s / 0.0005 / 3);
  EXPECT_EQ(course.interval(), 4);
  course.choose_interval(reading_s / 0.0005 * 1.01);
  EXPECT_EQ(course.interval(), 4) << "of the two limits the longer one counts";
}

TEST_P(CourseOfLoss, NeverWaitsForTheDevice) {
  LossProgress course = progress(100);
  test::queue_work_after_nothing(*stream);
  for (int i = 0; i < 100; ++i) step(course);
  EXPECT_TRUE(course.points().empty());
  EXPECT_FALSE(channels.status(0).loss);
}

TEST_P(CourseOfLoss, TellsTheLossAboutOnceASecondBetweenPoints) {
  device.work_s = 0.1;
  LossProgress course = progress(100'000);
  ASSERT_GT(course.interval(), 100);
  for (int i = 0; i < 100; ++i) {
    step(course);
    stream->synchronize();
  }
  EXPECT_TRUE(course.points().empty());
  ASSERT_TRUE(channels.status(0).loss);
  EXPECT_NEAR(*channels.status(0).loss, 90, 10);  // the mean of the last ten steps or so
}

TEST_P(CourseOfLoss, TellsALossThatIsNoNumber) {
  bad_step = 2;
  LossProgress course = progress(2);
  step(course);
  step(course);
  end_epoch(course);
  ASSERT_EQ(course.points().size(), 2u);
  EXPECT_EQ(course.points()[0].loss_sum, 4);
  EXPECT_TRUE(std::isnan(course.points()[1].loss_sum));
  EXPECT_TRUE(std::isnan(channels.status(0).loss.value_or(0)));
}

}  // namespace
}  // namespace ddpbench::bench
