// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_collector.h"

#include <gtest/gtest.h>

#include "bench/rank/rank_result.h"

namespace ddpbench::bench {
namespace {

TrainingJob ddp_job() {
  TrainingJob job;
  job.cell = {.strategy = "ddp", .world_size = 2};
  job.per_device_batch = 8;
  job.steps_per_epoch = 3;
  job.options.epochs = 1;
  job.reference_fd = 0;
  job.verification_tolerance = 1e-3;
  job.cores = {{0}, {1}};
  return job;
}

launch::StepRecord step(std::uint32_t number, double begin, double seconds) {
  launch::StepRecord record;
  record.step = number;
  record.begin_s = begin;
  record.end_s = begin + seconds;
  record.phases_observed = 1;
  record.phase_s[static_cast<std::size_t>(Phase::forward)] = seconds / 2;
  record.comm_s = 0.4;
  record.comm_overlapped_s = 0.3;
  return record;
}

RankResult result_of(double error, std::uint64_t hash) {
  RankResult result;
  result.host = "host";
  result.parameters = 10;
  result.verification = {{error, "w", hash}};
  result.epochs = {{.epoch = 0,
                    .begin_s = 1,
                    .end_s = 4,
                    .samples = 24,
                    .loss_sum = 12,
                    .correct = 6,
                    .test_samples = 50,
                    .test_correct = 40}};
  return result;
}

class Collector : public testing::Test {
 protected:
  Collector() : channels(launch::RankChannels::create({.ranks = 2, .step_capacity = 3})) {}
  void finish(int rank, const RankResult& result) { channels.writer(rank).result(encoded(result)); }
  launch::RankChannels channels;
};

TEST_F(Collector, TakesTheSlowestRankOfEveryStep) {
  auto first = channels.writer(0);
  auto second = channels.writer(1);
  const double seconds[2][3] = {{1, 5, 2}, {4, 1, 3}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    first.append(step(i, 10.0 * i, seconds[0][i]));
    second.append(step(i, 10.0 * i, seconds[1][i]));
  }
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(2e-6, 1));
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.step.samples_s, (std::vector<double>{4, 5, 3}));
  EXPECT_EQ(run.step.time_s->median, 4);
  EXPECT_EQ(*run.samples_per_s.value, 16.0 / 4);
  EXPECT_EQ(*run.phases.at("forward_s").value, 2);
  EXPECT_NEAR(*run.phases.at("overlap_ratio").value, 0.75, 1e-12);
  EXPECT_NEAR(*run.phases.at("comm_exposed_s").value, 0.1, 1e-12);
}

TEST_F(Collector, LeavesOutTheStepsInWhichTheJobWasStopped) {
  auto first = channels.writer(0);
  auto second = channels.writer(1);
  // Rank 0 was done with step 1 when the job was stopped, rank 1 was not.
  for (const auto& record : {step(0, 1, 0.1), step(1, 1.2, 0.1), step(2, 3.2, 0.3)}) {
    first.append(record);
  }
  for (const auto& record : {step(0, 1, 0.2), step(1, 1.2, 1.9), step(2, 3.2, 0.4)}) {
    second.append(record);
  }
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(1e-6, 1));
  launch::SuperviseResult result;
  result.pauses = {{1.5, 3}};
  const auto run = collect_run(ddp_job(), channels, result);
  ASSERT_EQ(run.step.samples_s.size(), 2U);
  EXPECT_DOUBLE_EQ(run.step.samples_s[0], 0.2);
  EXPECT_NEAR(run.step.samples_s[1], 0.4, 1e-12);
  EXPECT_EQ(run.step.count, 2);
  ASSERT_TRUE(run.conditions);
  EXPECT_DOUBLE_EQ(*run.conditions->stopped_s, 1.5);
  EXPECT_EQ(run.conditions->stopped_steps, 1);
  EXPECT_NEAR(run.epochs[0].time_s, 1.5, 1e-12);  // from 1 to 4, without the stop
}

TEST_F(Collector, AddsUpSamplesOverRanks) {
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(1e-6, 1));
  const auto run = collect_run(ddp_job(), channels, {});
  ASSERT_EQ(run.epochs.size(), 1u);
  EXPECT_EQ(run.epochs[0].samples, 48);
  EXPECT_EQ(run.epochs[0].train_loss, 0.5);
  EXPECT_EQ(run.epochs[0].train_accuracy, 0.25);
  EXPECT_EQ(*run.epochs[0].test_accuracy.value, 0.8);
}

TEST_F(Collector, FailsVerificationThatIsOutsideTheTolerance) {
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(2e-3, 1));
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.verification.status, "failed");
  EXPECT_EQ(*run.verification.max_relative_error.value, 2e-3);
}

TEST_F(Collector, FailsVerificationOfReplicasThatAreNotBitEqual) {
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(1e-6, 2));
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.verification.status, "failed");
  EXPECT_EQ(run.verification.replicas_bit_equal, false);
}

TEST_F(Collector, FailsARunWhoseRecordsDidNotFit) {
  auto writer = channels.writer(1);
  for (std::uint32_t i = 0; i < 5; ++i) writer.append(step(i, 10.0 * i, 1));
  finish(0, result_of(1e-6, 1));
  finish(1, result_of(1e-6, 1));
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.status, report::Status::failed);
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->kind, "internal");
  EXPECT_EQ(run.error->rank, 1);
  EXPECT_NE(run.error->message.find("2 timed steps"), std::string::npos) << run.error->message;
}

TEST_F(Collector, NamesTheGuiltyRankOfAFailedRun) {
  launch::SuperviseResult result;
  result.failure = launch::RunFailure{.rank = 1, .signal = 9};
  result.failure->error.kind = "signal";
  result.failure->last.state = launch::RankState::training;
  result.failure->last.step = 7;
  result.failure->last.phase = static_cast<std::uint32_t>(Phase::backward);
  const auto run = collect_run(ddp_job(), channels, result);
  EXPECT_EQ(run.status, report::Status::failed);
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->rank, 1);
  EXPECT_EQ(run.error->signal, 9);
  EXPECT_EQ(run.error->step, 7u);
  EXPECT_EQ(run.error->phase, "backward");
  EXPECT_FALSE(run.samples_per_s.value);
  EXPECT_FALSE(run.samples_per_s.reason.empty());
}

}  // namespace
}  // namespace ddpbench::bench
