// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/run_records.h"

#include <gtest/gtest.h>

#include <cmath>

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
  record.phases_observed = bit_of(Phase::data_wait);
  record.phase_s[static_cast<std::size_t>(Phase::forward)] = seconds / 2;
  record.comm_s = 0.4;
  record.comm_overlapped_s = 0.3;
  return record;
}

RankResult result_of(double error, std::uint64_t hash) {
  RankResult result;
  result.host = "host";
  result.parameters = 10;
  result.verification = {{.max_relative_error = error,
                          .tolerance = 1e-3,
                          .worst_tensor = "w",
                          .worst_step = 2,
                          .steps = 3,
                          .weights_hash = hash}};
  result.epochs = {{.epoch = 0,
                    .begin_s = 1,
                    .end_s = 4,
                    .samples = 24,
                    .loss_sum = 12,
                    .correct = 6,
                    .counted = 24,
                    .test_samples = 50,
                    .test_correct = 40,
                    .test_counted = 50}};
  return result;
}

class Collector : public testing::Test {
 protected:
  Collector()
      : channels(
            launch::RankChannels::create({.ranks = 2, .step_capacity = 3, .bucket_capacity = 3})) {}
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

TEST_F(Collector, ListsAPhaseThatTheRunHadThoughItTookNoTime) {
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    launch::StepRecord record = step(0, 10, 1);
    record.phases_observed |= bit_of(Phase::replicate);
    writer.append(record);
    finish(rank, result_of(1e-6, 1));
  }
  const auto phases = collect_run(ddp_job(), channels, {}).phases;
  EXPECT_EQ(phases.at("replicate_s").value, 0);
  EXPECT_FALSE(phases.contains("push_s"));
}

// Neither rank alone has 80 % of its part.
TEST_F(Collector, CountsTheTrainingTimeUntilAllRanksTogetherReachTheAccuracy) {
  RankResult results[2] = {result_of(1e-6, 1), result_of(1e-6, 1)};
  for (int rank = 0; rank < 2; ++rank) {
    EpochResult& first = results[rank].epochs[0];  // from 1 to 4
    first.test_correct = 30;
    EpochResult second = first;
    second.epoch = 1;
    second.begin_s = 9;  // 5 s of evaluation are no training
    second.end_s = rank == 0 ? 10 : 11;
    second.test_correct = rank == 0 ? 32 : 48;
    results[rank].epochs.push_back(second);
    finish(rank, results[rank]);
    channels.writer(rank).append(step(0, 1, 1));
  }
  TrainingJob job = ddp_job();
  job.options.epochs = 5;
  job.options.until_accuracy = Percent{80};
  const auto run = collect_run(job, channels, {});
  ASSERT_TRUE(run.until_accuracy);
  EXPECT_DOUBLE_EQ(run.until_accuracy->target, 0.8);
  ASSERT_TRUE(run.until_accuracy->train_s.value) << run.until_accuracy->train_s.reason;
  EXPECT_DOUBLE_EQ(*run.until_accuracy->train_s.value, 3 + 2);
  job.options.until_accuracy = Percent{81};
  EXPECT_EQ(collect_run(job, channels, {}).until_accuracy->train_s.reason,
            "81 % was not reached in 2 epochs: at best 80.00 % (--epochs allows more)");
  job.options.until_accuracy.reset();
  EXPECT_FALSE(collect_run(job, channels, {}).until_accuracy);
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

TEST_F(Collector, SaysWhereAVerificationCouldHardlyHaveFailed) {
  RankResult result = result_of(1e-6, 1);
  result.verification[0].vague_share = 0.4;
  finish(0, result);
  finish(1, result);
  EXPECT_EQ(collect_run(ddp_job(), channels, {}).verification.status, "passed");
  result.verification[0].vague_share = 0.6;
  finish(1, result);
  const auto vague = collect_run(ddp_job(), channels, {}).verification;
  EXPECT_EQ(vague.status, "not_applicable");
  EXPECT_NE(vague.reason.find("60 % of the parameters"), std::string::npos) << vague.reason;
  EXPECT_EQ(*vague.max_relative_error.value, 1e-6);
}

TEST_F(Collector, NamesStepAndToleranceOfTheWorstComparison) {
  RankResult small = result_of(1e-6, 1);
  small.verification[0].tolerance = 1e-7;  // the other's error is larger, and within its tolerance
  finish(0, small);
  finish(1, result_of(1e-4, 1));
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.verification.status, "failed");
  EXPECT_EQ(run.verification.worst_step, 2);
  EXPECT_EQ(*run.verification.tolerance.value, 1e-7);
  EXPECT_EQ(*run.verification.max_relative_error.value, 1e-6);
}

TEST_F(Collector, TellsADivergedReferenceFromStrategiesThatDisagree) {
  RankResult result = result_of(1e-6, 1);
  result.verification[0].steps = 1;
  result.verification[0].diverged = "training diverged in step 2: the loss is inf";
  finish(0, result);
  finish(1, result);
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_EQ(run.verification.status, "diverged");
  EXPECT_EQ(run.verification.steps, 1);
  EXPECT_EQ(run.status, report::Status::diverged);
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->kind, "diverged");
  EXPECT_NE(run.error->message.find("in step 2"), std::string::npos) << run.error->message;
  EXPECT_NE(run.error->message.find("--lr"), std::string::npos) << run.error->message;
}

// Labels that the loss ignores are in no mean. Samples are counted all the same.
TEST_F(Collector, TakesMeansOverTheLabelsThatCount) {
  for (int rank = 0; rank < 2; ++rank) {
    RankResult result = result_of(1e-6, 1);
    result.epochs[0].counted = rank == 0 ? 10 : 6;
    result.epochs[0].test_counted = rank == 0 ? 60 : 40;
    finish(rank, result);
  }
  const auto run = collect_run(ddp_job(), channels, {});
  ASSERT_EQ(run.epochs.size(), 1U);
  EXPECT_EQ(run.epochs[0].samples, 48);
  EXPECT_DOUBLE_EQ(run.epochs[0].train_loss, 24.0 / 16);
  EXPECT_DOUBLE_EQ(run.epochs[0].train_accuracy, 12.0 / 16);
  EXPECT_DOUBLE_EQ(run.epochs[0].test_accuracy.value.value(), 80.0 / 100);
}

TEST_F(Collector, HasNoAccuracyWhereNoTestLabelCounts) {
  RankResult result = result_of(1e-6, 1);
  result.epochs[0].test_correct = result.epochs[0].test_counted = 0;
  finish(0, result);
  finish(1, result);
  const auto run = collect_run(ddp_job(), channels, {});
  EXPECT_FALSE(run.epochs.at(0).test_accuracy.value);
  EXPECT_NE(run.epochs[0].test_accuracy.reason.find("ignores"), std::string::npos);
}

TEST_F(Collector, CallsAnExplodedLossDiverged) {
  for (const double sum : {std::nan(""), 1e300, 24.0 * 1000}) {
    RankResult result = result_of(1e-6, 1);
    result.epochs[0].loss_sum = sum;
    finish(0, result);
    finish(1, result);
    const auto run = collect_run(ddp_job(), channels, {});
    EXPECT_EQ(run.status, report::Status::diverged) << sum;
    EXPECT_EQ(run.verification.status, "passed");
    EXPECT_EQ(run.epochs.size(), 1u);
  }
}

// They carried the primary's times, its update included.
TEST_F(Collector, GivesEveryReplicaOfDpItsOwnTimes) {
  auto dp_channels =
      launch::RankChannels::create({.ranks = 1, .step_capacity = 3, .replica_capacity = 6});
  auto writer = dp_channels.writer(0);
  for (std::uint32_t i = 0; i < 3; ++i) {
    writer.append(step(i, 10.0 * i, 4));
    writer.append(launch::ReplicaRecord{.step = i,
                                        .replica = 1,
                                        .forward_s = 0.5,
                                        .backward_s = 1,
                                        .comm_wait_s = 0.25,
                                        .idle_s = 2});
  }
  RankResult result = result_of(1e-6, 1);
  result.devices = {{.rank = 0, .role = "worker"}, {.rank = 1, .role = "worker"}};
  writer.result(encoded(result));
  TrainingJob job = ddp_job();
  job.cell.strategy = "dp";
  const auto run = collect_run(job, dp_channels, {});
  ASSERT_EQ(run.devices.size(), 2u);
  EXPECT_EQ(*run.devices[0].phases.at("forward_s").value, 2);
  const auto& other = run.devices[1].phases;
  EXPECT_EQ(*other.at("forward_s").value, 0.5);
  EXPECT_EQ(*other.at("backward_s").value, 1);
  EXPECT_EQ(*other.at("comm_wait_s").value, 0.25);
  EXPECT_EQ(*other.at("idle_s").value, 2);
  for (const char* key : {"optimizer_s", "reduce_s", "data_wait_s", "comm_s"}) {
    EXPECT_FALSE(other.at(key).value) << key;
    EXPECT_EQ(other.at(key).reason, "only the primary device does this") << key;
  }
  EXPECT_EQ(*run.devices[1].step_time_median_s.value, 4);
}

TEST_F(Collector, FindsStragglersWhereTheBackendTellsNoArrival) {
  const double starts[2] = {1, 3};
  for (int rank = 0; rank < 2; ++rank) {
    auto writer = channels.writer(rank);
    launch::StepRecord record = step(0, 0, 5);
    record.backward_end_s = 1;
    writer.append(record);
    launch::BucketRecord bucket{.step = 0};
    bucket.times = {
        .start_s = starts[rank], .arrived_s = starts[rank], .end_s = 4, .arrived_told = false};
    writer.append(bucket);
    RankResult result = result_of(1e-6, 1);
    result.devices = {{.rank = rank, .role = "worker"}};
    finish(rank, result);
  }
  const auto run = collect_run(ddp_job(), channels, {});
  ASSERT_EQ(run.devices.size(), 2u);
  EXPECT_EQ(*run.devices[0].phases.at("comm_wait_exposed_s").value, 2);
  EXPECT_EQ(*run.devices[1].phases.at("comm_wait_exposed_s").value, 0);
  ASSERT_EQ(run.devices[0].buckets.size(), 1u);
  EXPECT_EQ(run.devices[0].buckets[0].arrived_s, 3);
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
  EXPECT_EQ(run.error->bucket, std::nullopt);
}

launch::CallMark reduction(std::uint64_t number, int bucket) {
  return {.number = number, .kind = comm::OperationKind::all_reduce, .bucket = bucket};
}

// Rank 1 has failed.
class FailedCall : public Collector {
 protected:
  FailedCall() {
    result.failure = launch::RunFailure{.rank = 1};
    result.failure->error.kind = "signal";
  }
  report::ErrorInfo error() const { return *collect_run(ddp_job(), channels, result).error; }
  launch::SuperviseResult result;
};

TEST_F(FailedCall, IsThatInWhichTheOthersWaitForTheGuiltyRank) {
  channels.writer(0).calls({}, reduction(18, 2));
  channels.writer(1).calls(reduction(17, 1), {});
  EXPECT_EQ(error().operation, "all_reduce");
  EXPECT_EQ(error().bucket, 2);
}

TEST_F(FailedCall, IsThatOfTheGuiltyRankWhereItIsInOne) {
  channels.writer(0).calls({}, reduction(17, 1));
  channels.writer(1).calls({}, reduction(18, 2));
  EXPECT_EQ(error().bucket, 2);
}

TEST_F(FailedCall, IsNoMessageBetweenOtherRanks) {
  channels.writer(0).calls({}, {.number = 5, .kind = comm::OperationKind::recv, .peer = 3});
  EXPECT_EQ(error().operation, "");
}

// Rank 1 called something else, and rank 0 noticed it.
TEST_F(FailedCall, IsOfTheOperationThatFailed) {
  result.failure->error.operation = "all_reduce";
  channels.writer(0).calls({}, reduction(17, 1));
  channels.writer(1).calls({}, {.number = 17, .kind = comm::OperationKind::broadcast});
  EXPECT_EQ(error().operation, "all_reduce");
  EXPECT_EQ(error().bucket, 1);
}

TEST_F(FailedCall, IsNotTheFailureOfARankThatThrowsOutsideOfIt) {
  result.failure->last.error = result.failure->error = {"internal", "planted", "", 1};
  channels.writer(0).calls({}, reduction(17, 1));
  EXPECT_EQ(error().operation, "");
  EXPECT_EQ(error().bucket, std::nullopt);
}

}  // namespace
}  // namespace ddpbench::bench
