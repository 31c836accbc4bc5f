// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Divergence : public testing::Test {
 protected:
  Divergence() {
    job.steps_per_epoch = 10;
    job.options.lr = 0.5;
    job.options.epochs = 2;
    job.dataset.classes = 10;
    run.epochs = {{.epoch = 0, .train_loss = 2}, {.epoch = 1, .train_loss = 1}};
  }
  void note() { note_divergence(job, ranks, run); }

  TrainingJob job;
  std::vector<RankResult> ranks = std::vector<RankResult>(3);
  report::Run run;
};

TEST_F(Divergence, IsNotFoundWhereAllIsFinite) {
  note();
  EXPECT_EQ(run.status, report::Status::ok);
  EXPECT_FALSE(run.diverged_step.value);
  EXPECT_EQ(run.diverged_step.reason, "");
}

TEST_F(Divergence, NamesTheFirstStepOfAnyRankWithItsEpoch) {
  ranks[1].diverged_step = 13;
  ranks[2].diverged_step = 11;
  ranks[0].diverged_tensor = "fc.bias";
  run.epochs[1].train_loss = std::numeric_limits<double>::quiet_NaN();
  note();
  EXPECT_EQ(run.status, report::Status::diverged);
  EXPECT_EQ(run.error->kind, "diverged");
  EXPECT_EQ(run.error->message,
            "training diverged: the loss of step 11 (in epoch 2) is not finite; use a smaller "
            "learning rate (--lr is 0.5)");
  EXPECT_EQ(run.diverged_step.value, 11);
  EXPECT_EQ(run.error->step, 11u);
}

TEST_F(Divergence, BlamesNoLearningRateBeforeTheFirstUpdate) {
  ranks[0].diverged_step = 1;
  note();
  EXPECT_THAT(run.error->message, HasSubstr("no update was made before it"));
  EXPECT_THAT(run.error->message, Not(HasSubstr("--lr")));
}

TEST_F(Divergence, NamesTheEpochsThatWereLeftOut) {
  ranks[0].diverged_step = 11;
  job.options.epochs = 3;
  note();
  EXPECT_THAT(run.error->message,
              HasSubstr("is not finite; epochs 3 to 3 were left out; use a smaller"));
  job.options.epochs = 9;
  run.status = report::Status::ok;
  note();
  EXPECT_THAT(run.error->message, HasSubstr("; epochs 3 to 9 were left out; use a smaller"));
}

// It was --until-accuracy that ended this run.
TEST_F(Divergence, LeavesNoEpochsOutForALossThatIsFinite) {
  job.options.epochs = 9;
  run.epochs[1].train_loss = 1000;
  note();
  EXPECT_THAT(run.error->message, Not(HasSubstr("left out")));
  EXPECT_FALSE(run.error->step);
}

TEST_F(Divergence, CountsTheLastStepOfAnEpochForThatEpoch) {
  ranks[0].diverged_step = 10;
  note();
  EXPECT_THAT(run.error->message, HasSubstr("step 10 (in epoch 1)"));
}

TEST_F(Divergence, NamesTheWeightsThatAreNotFiniteAfterTheLastStep) {
  ranks[2].diverged_tensor = "fc.bias";
  note();
  EXPECT_EQ(run.status, report::Status::diverged);
  EXPECT_THAT(run.error->message,
              StartsWith("training diverged: after the last step fc.bias of rank 2 is not finite"));
  EXPECT_FALSE(run.diverged_step.value);
  EXPECT_EQ(run.diverged_step.reason, "the loss of every step is finite");
  EXPECT_EQ(run.diverged_tensor, "fc.bias");
  EXPECT_TRUE(has_useless_weights(run));
}

// Whether or not a step of the run itself diverged, whose message it then is.
TEST_F(Divergence, LeavesUselessWeightsWhereALossOrAWeightIsNotFinite) {
  run.verification.status = "diverged";
  run.verification.reason = "training diverged in step 2: the loss is inf";
  note();
  EXPECT_EQ(run.status, report::Status::diverged);
  EXPECT_THAT(run.error->message, HasSubstr("the loss is inf"));
  EXPECT_FALSE(has_useless_weights(run));
  run.status = report::Status::ok;
  ranks[0].diverged_step = 2;
  note();
  EXPECT_THAT(run.error->message, HasSubstr("the loss of step 2 (in epoch 1) is not finite"));
  EXPECT_EQ(run.error->step, 2u);
  EXPECT_TRUE(has_useless_weights(run));
}

TEST_F(Divergence, IsALossFarBeyondThatOfGuessing) {
  run.epochs[1].train_loss = 1000;
  note();
  EXPECT_THAT(run.error->message, HasSubstr("the loss of epoch 2 is 1e+03, that of guessing 2.3"));
  EXPECT_EQ(run.diverged_step.reason, "the loss of every step is finite");
}

TEST_F(Divergence, KeepsTheErrorOfARunThatFailedAndTellsItsStep) {
  ranks[0].diverged_step = 4;
  run.status = report::Status::failed;
  note();
  EXPECT_EQ(run.status, report::Status::failed);
  EXPECT_FALSE(run.error);
  EXPECT_EQ(run.diverged_step.value, 4);
}

}  // namespace
}  // namespace ddpbench::bench
