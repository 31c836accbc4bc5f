// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddpbench::bench {
namespace {

using launch::StepRecord;

// Two ranks take two epochs of two steps. Rank 1 ends each step half a second later.
class LossCurve : public testing::Test {
 protected:
  LossCurve() {
    for (int rank = 0; rank < 2; ++rank) {
      const double late_s = 0.5 * rank;
      steps[rank] = {step(0, 0, 10, 11 + late_s), step(1, 0, 11, 12 + late_s),
                     step(2, 1, 20, 21 + late_s), step(3, 1, 21, 22 + late_s)};
      points[rank] = {{1, 8, 1, 4}, {2, 12, 3, 8}, {3, 14, 6, 12}, {4, 15, 10, 16}};
    }
    epochs = {{.epoch = 0, .time_s = 3}, {.epoch = 1, .time_s = 4}};
  }
  static StepRecord step(std::uint32_t number, std::uint32_t epoch, double begin_s, double end_s) {
    StepRecord record;
    record.step = number;
    record.epoch = epoch;
    record.begin_s = begin_s;
    record.end_s = end_s;
    return record;
  }
  std::vector<report::ProgressPoint> rows() const {
    report::Run run;
    run.epochs = epochs;
    return progress_points({{points[0], steps[0]}, {points[1], steps[1]}}, run, 32);
  }

  std::vector<StepRecord> steps[2];
  std::vector<LossPoint> points[2];
  std::vector<report::EpochRow> epochs;
};

TEST_F(LossCurve, HasTheMeansOfAllRanksSinceThePointBefore) {
  points[1] = {{1, 4, 0, 2}, {2, 5, 0, 4}, {3, 6, 1, 6}, {4, 7, 2, 8}};
  const auto found = rows();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_DOUBLE_EQ(found[0].train_loss, (8.0 + 4) / 6);
  EXPECT_DOUBLE_EQ(found[1].train_loss, (4.0 + 1) / 6);
  EXPECT_DOUBLE_EQ(found[3].train_loss, (1.0 + 1) / 6);
  EXPECT_DOUBLE_EQ(found[0].train_accuracy, 1.0 / 6);
  EXPECT_DOUBLE_EQ(found[3].train_accuracy, 5.0 / 6);
  EXPECT_EQ(found[3].epoch, 1);
  EXPECT_EQ(found[3].step, 4);
  EXPECT_EQ(found[3].samples, 4 * 32);
}

TEST_F(LossCurve, CountsTheTimeOfTrainingWithoutEvaluation) {
  const auto found = rows();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_DOUBLE_EQ(found[0].train_s, 1.5);  // until the later rank ended its step
  EXPECT_DOUBLE_EQ(found[1].train_s, 2.5);
  EXPECT_DOUBLE_EQ(found[2].train_s, 3 + 1.5);
  EXPECT_DOUBLE_EQ(found[3].train_s, 3 + 2.5);
}

TEST_F(LossCurve, HasThePointsThatAllRanksHave) {
  points[1].erase(points[1].begin());
  points[1].erase(points[1].begin() + 1);
  const auto found = rows();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].step, 2);
  EXPECT_DOUBLE_EQ(found[0].train_loss, 24.0 / 16);
  EXPECT_EQ(found[1].step, 4);
  points[1].clear();
  EXPECT_TRUE(rows().empty());
}

TEST_F(LossCurve, EndsWhereARankRecordedNoMoreSteps) {
  steps[1].resize(2);
  EXPECT_EQ(rows().size(), 2u);
}

TEST_F(LossCurve, KeepsALossThatIsNoNumber) {
  points[1][2].loss_sum = points[1][3].loss_sum = std::numeric_limits<double>::quiet_NaN();
  const auto found = rows();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_FALSE(std::isnan(found[1].train_loss));
  EXPECT_TRUE(std::isnan(found[2].train_loss));
  EXPECT_DOUBLE_EQ(found[2].train_accuracy, 6.0 / 8);
}

// Labels that the loss ignores may fill a whole step.
TEST_F(LossCurve, HasNoPointWhereNoLabelCounted) {
  for (auto& course : points) {
    for (LossPoint& point : course) point.counted = point.step == 1 ? 0 : 8;
  }
  const auto found = rows();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].step, 2);
}

}  // namespace
}  // namespace ddpbench::bench
