// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm/comm_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;

// Two ranks, two rows of 1000 fp32 elements, three iterations.
CommJob two_rows() {
  CommJob job;
  job.iterations = 3;
  job.warmup = 1;
  job.rows = {{"all_reduce", 1000}, {"all_gather", 1000}};
  job.devices.cores = {{0}, {1}};
  return job;
}

class CommCollector : public testing::Test {
 protected:
  CommCollector() : channels(launch::RankChannels::create(channel_layout(job))) {}

  void time(int rank, std::uint32_t row, const std::vector<double>& seconds) {
    auto writer = channels.writer(rank);
    for (const double duration : seconds) {
      launch::StepRecord record;
      record.epoch = row;
      record.begin_s = 10;
      record.end_s = 10 + duration;
      writer.append(record);
    }
  }
  void finish(int rank, const std::vector<std::uint64_t>& wrong, double gb_per_s = 8,
              const std::vector<std::int64_t>& late = {}) {
    CommRankResult result;
    result.host = "host";
    result.model = "Imaginary GPU";
    result.wrong = wrong;
    result.late = late;
    result.bandwidth = {
        {4096, false, rank == 0 ? 10.0 : 0.0, 1}, {4096, true, gb_per_s, 1}, {1 << 20, true, 1, 1}};
    channels.writer(rank).result(encoded(result));
  }
  report::Status collect(const launch::SuperviseResult& result = {}) {
    return collect_comm(job, channels, result, report, error);
  }

  CommJob job = two_rows();
  launch::RankChannels channels;
  report::Report report;
  std::optional<report::ErrorInfo> error;
};

TEST_F(CommCollector, TakesTheMedianOfTheSlowestRank) {
  time(0, 0, {1, 5, 2});
  time(1, 0, {4, 1, 3});
  time(0, 1, {1, 1, 1});
  time(1, 1, {2, 2, 2});
  finish(0, {0, 0});
  finish(1, {0, 0});
  EXPECT_EQ(collect(), report::Status::ok);
  ASSERT_EQ(report.collectives.size(), 2u);
  const report::CollectiveRow& row = report.collectives[0];
  EXPECT_EQ(row.time_s->median, 4);
  EXPECT_EQ(row.bytes, 4000u);
  EXPECT_EQ(row.count, 1000u);
  EXPECT_DOUBLE_EQ(*row.algbw_gb_per_s.value, 1000 / 1e9);
  EXPECT_EQ(row.wrong, 0u);
  EXPECT_EQ(report.collectives[1].count, 500u);  // of a part
}

TEST_F(CommCollector, BoundsByWhatAllCoresReachedTogetherNearThatSize) {
  time(0, 0, {1, 1, 1});
  time(1, 0, {1, 1, 1});
  finish(0, {0});
  finish(1, {0});
  collect();
  // Both cores have 16 GB/s; 2 x 2 x 4000 bytes are moved.
  EXPECT_DOUBLE_EQ(*report.collectives[0].bound_busbw_gb_per_s.value, 4000 / (16000 / 16.0));
  EXPECT_EQ(report.collectives[0].bound, "memory_copy");
  ASSERT_EQ(report.memory_bandwidth.size(), 3u);
  EXPECT_EQ(report.memory_bandwidth[0].cores, 1);
  EXPECT_EQ(report.memory_bandwidth[0].copy_gb_per_s, 10);
  EXPECT_EQ(report.memory_bandwidth[1].cores, 2);
  EXPECT_EQ(report.memory_bandwidth[1].copy_gb_per_s, 16);
}

// Two ranks on the first GPU.
class CommCollectorOnAGpu : public CommCollector {
 protected:
  CommCollectorOnAGpu() {
    job.devices.device = "cuda";
    job.devices.backend = "nccl";
    job.devices.gpus = {0, 0};
    job.devices.oversubscribed = true;
    time(0, 0, {1e-6, 2e-6, 3e-6});
    time(1, 0, {2e-6, 1e-6, 1e-6});
    for (const int rank : {0, 1}) finish(rank, {0}, 0, {rank == 1 ? 2 : 1});
  }
};

TEST_F(CommCollectorOnAGpu, SaysWhatTheRanksRanOn) {
  collect();
  const report::CollectiveRow& row = report.collectives[0];
  EXPECT_EQ(row.device, "cuda");
  EXPECT_EQ(row.device_model, "Imaginary GPU");
  EXPECT_EQ(row.gpus, (std::vector<int>{0, 0}));
  EXPECT_EQ(row.late_iterations, 2);
}

TEST_F(CommCollectorOnAGpu, HasNoBoundThatMemoryIsNot) {
  job.devices.gpus = {0, 1};
  collect();
  EXPECT_THAT(report.collectives[0].share_of_bound.reason, HasSubstr("several GPUs"));
  job.devices.gpus = {0, 0};
  job.devices.backend = "nccl";
  collect();
  EXPECT_THAT(report.collectives[1].share_of_bound.reason, HasSubstr("through the host"));
  EXPECT_EQ(report.collectives[1].backend, "nccl");
}

TEST_F(CommCollector, FailsWithWrongElementsOfAnyRank) {
  for (const int rank : {0, 1}) {
    time(rank, 0, {1, 1, 1});
    finish(rank, {rank == 1 ? 7u : 0u});
  }
  EXPECT_EQ(collect(), report::Status::failed);
  EXPECT_EQ(report.collectives[0].wrong, 7u);
  EXPECT_EQ(error->kind, "verification");
  EXPECT_THAT(error->message, HasSubstr("7 elements"));
}

TEST_F(CommCollector, KeepsTheIterationsOfARunThatWasInterrupted) {
  time(0, 0, {1, 2});
  time(1, 0, {3});
  EXPECT_EQ(collect({.interrupted = true}), report::Status::interrupted);
  ASSERT_EQ(report.collectives.size(), 1u);  // the second row was not begun
  EXPECT_EQ(report.collectives[0].iterations, 1);
  EXPECT_EQ(report.collectives[0].time_s->median, 3);
  EXPECT_FALSE(report.collectives[0].wrong);
  EXPECT_FALSE(report.collectives[0].share_of_bound.value);
}

TEST_F(CommCollector, PassesOnWhoFailedAndInWhichOperation) {
  launch::SuperviseResult result;
  result.failure = launch::RunFailure{.rank = 1};
  result.failure->error = {"timeout", "deadline passed", "all_reduce", 4};
  EXPECT_EQ(collect(result), report::Status::failed);
  EXPECT_EQ(error->rank, 1);
  EXPECT_EQ(error->operation, "all_reduce");
}

TEST_F(CommCollector, KeepsTheRowsThatAFailureLeftWithoutFigures) {
  time(0, 0, {1, 2});
  time(1, 0, {3, 4});
  launch::SuperviseResult result;
  result.failure = launch::RunFailure{.rank = 1};
  result.failure->error = {"timeout", "deadline passed", "all_gather", 4};
  EXPECT_EQ(collect(result), report::Status::failed);
  ASSERT_EQ(report.collectives.size(), 2u);
  EXPECT_EQ(report.collectives[0].time_s->median, 3.5);
  const report::CollectiveRow& row = report.collectives[1];
  EXPECT_EQ(row.operation, "all_gather");
  EXPECT_EQ(row.iterations, 0);
  EXPECT_FALSE(row.time_s);
  EXPECT_THAT(row.busbw_gb_per_s.reason, HasSubstr("deadline passed"));
  EXPECT_THAT(row.wrong_reason, HasSubstr("deadline passed"));
}

TEST_F(CommCollector, GivesNoBoundToMoreRanksThanCores) {
  job.devices.oversubscribed = true;
  time(0, 0, {1});
  time(1, 0, {1});
  collect();
  EXPECT_THAT(report.collectives[0].share_of_bound.reason, HasSubstr("oversubscribed"));
}

}  // namespace
}  // namespace ddpbench::bench
