// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Times of several hosts on one clock: how the offset is measured, and what it corrects.
#include "bench/run/run_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace ddpbench::bench {
namespace {

constexpr double kTimeRounding = 1e-9;
constexpr std::int64_t kMillisecond_ns = 1'000'000;

// A store on a host whose clock is `ahead_ns` ahead. The way there takes `there_ns`, the way back
// `back_ns`, in most round trips more.
class FarStore : public comm::Store {
 public:
  FarStore(std::int64_t ahead_ns, std::int64_t there_ns, std::int64_t back_ns)
      : ahead_ns_(ahead_ns), there_ns_(there_ns), back_ns_(back_ns) {}
  void set(const std::string&, const std::string&) override {}
  std::string get(const std::string&, double) override { return ""; }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  std::int64_t clock_ns() override {
    const std::int64_t delay_ns = calls_++ % 7 == 3 ? 0 : 2 * kMillisecond_ns;
    wait(there_ns_ + delay_ns);
    const std::int64_t told_ns = comm::own_clock_ns() + ahead_ns_;
    wait(back_ns_);
    return told_ns;
  }

 private:
  static void wait(std::int64_t time_ns) {
    const std::int64_t until_ns = comm::own_clock_ns() + time_ns;
    while (comm::own_clock_ns() < until_ns) {
    }
  }
  std::int64_t ahead_ns_, there_ns_, back_ns_;
  int calls_ = 0;
};

TEST(ReadClock, KnowsTheOffsetWithinItsBoundAlsoWhereTheWaysDiffer) {
  constexpr double kAhead_s = 4321.5;
  FarStore store(static_cast<std::int64_t>(kAhead_s * 1e9), kMillisecond_ns / 2,
                 kMillisecond_ns / 10);
  const ClockReading reading = read_clock(store);
  EXPECT_LE(std::abs(reading.offset_s + kAhead_s), reading.bound_s);
  EXPECT_GE(reading.bound_s, 0.3e-3);
}

launch::StepRecord step_at(double begin_s) {
  return {.begin_s = begin_s, .end_s = begin_s + 1, .backward_end_s = begin_s + 0.5};
}

RankResult result_on(const std::string& host, std::vector<ClockReading> clock = {}) {
  RankResult result;
  result.host = host;
  result.clock = std::move(clock);
  return result;
}

TEST(HostClocks, AreOneOnOneHost) {
  RankRecords records{.results = {result_on("a"), result_on("a")},
                      .steps = {{step_at(10)}, {step_at(11)}},
                      .buckets = {},
                      .trace = {}};
  const HostClocks clocks(records);
  EXPECT_EQ(clocks.bound_s(), 0);
  EXPECT_TRUE(clocks.rows().empty());
  clocks.correct(records);
  EXPECT_EQ(records.steps[1][0].begin_s, 11);
}

// The clock of b is 1000 s ahead and gains 1 ms in 10 s.
TEST(HostClocks, CorrectByTheOffsetAndItsDrift) {
  RankRecords records{
      .results = {result_on("a"), result_on("b", {{1010, 1000, 2e-5}, {1020, 1000.001, 3e-5}}),
                  result_on("b")},
      .steps = {{step_at(12)}, {step_at(1012)}, {step_at(1015)}},
      .buckets = {{}, {{.times = {0, 64, 1012.1, 1012.2, 1012.3, 1012.4}}}, {}},
      .trace = {{}, {{.begin_s = 1012, .end_s = 1013}}, {}}};
  records.results[2].epochs = {{.epoch = 0, .begin_s = 1010, .end_s = 1020}};
  const HostClocks clocks(records);
  EXPECT_DOUBLE_EQ(clocks.bound_s(), 3e-5);
  clocks.correct(records);
  EXPECT_EQ(records.steps[0][0].begin_s, 12);
  EXPECT_NEAR(records.steps[1][0].begin_s, 11.9998, kTimeRounding);
  EXPECT_NEAR(records.steps[2][0].begin_s, 14.9995, kTimeRounding);
  EXPECT_NEAR(records.steps[2][0].backward_end_s, 15.49945, kTimeRounding);
  EXPECT_NEAR(records.buckets[1][0].times.arrived_s, 12.29977, kTimeRounding);
  EXPECT_NEAR(records.trace[1][0].end_s, 12.9997, kTimeRounding);
  EXPECT_NEAR(records.results[2].epochs[0].end_s, 19.999, kTimeRounding);
  const auto rows = clocks.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].host, "a");
  EXPECT_EQ(rows[0].bound_s.value, 0);
  EXPECT_EQ(rows[1].offset_s.value, 1000);
  EXPECT_DOUBLE_EQ(*rows[1].bound_s.value, 3e-5);
  EXPECT_NEAR(*rows[1].drift_s.value, 1e-3, kTimeRounding);
}

TEST(HostClocks, AreVagueTheLongerWithoutASecondMeasurement) {
  const RankRecords records{.results = {result_on("a"), result_on("b", {{50, 40, 1e-5}})},
                            .steps = {{step_at(10)}, {step_at(50), step_at(149)}},
                            .buckets = {},
                            .trace = {}};
  const HostClocks clocks(records);
  EXPECT_NEAR(clocks.bound_s(), 1e-5 + 100 * 2e-4, kTimeRounding);
  EXPECT_FALSE(clocks.rows()[1].drift_s.value);
  EXPECT_EQ(clocks.rows()[1].drift_s.reason, "the run ended before it was measured again");
}

TEST(HostClocks, AddTheBoundsOfTwoFarHosts) {
  const RankRecords records{.results = {result_on("a"), result_on("b", {{1, 0, 2e-5}, {2, 0, 0}}),
                                        result_on("c", {{1, 0, 3e-5}, {2, 0, 0}}),
                                        result_on("d", {{1, 0, 1e-5}, {2, 0, 0}})},
                            .steps = {},
                            .buckets = {},
                            .trace = {}};
  EXPECT_DOUBLE_EQ(HostClocks(records).bound_s(), 5e-5);
}

TEST(HostClocks, AreAlignedAtTheBeginWhereNothingWasMeasured) {
  RankRecords records{.results = {result_on("a"), result_on("b")},
                      .steps = {{step_at(10)}, {step_at(700)}},
                      .buckets = {},
                      .trace = {}};
  const HostClocks clocks(records);
  EXPECT_TRUE(std::isinf(clocks.bound_s()));
  clocks.correct(records);
  EXPECT_EQ(records.steps[1][0].begin_s, 10);
  EXPECT_EQ(clocks.rows()[1].offset_s.reason, "its ranks ended before they measured it");
}

TEST(HostClocks, AreUnknownWhereARankLeftNoHost) {
  const RankRecords records{
      .results = {result_on("a"), {}}, .steps = {}, .buckets = {}, .trace = {}};
  EXPECT_TRUE(std::isinf(HostClocks(records).bound_s()));
}

// Host b was started 500 s after host a. Each rank's epoch lasts 2 s, and they begin together.
TEST(HostClocks, MakeTheTimeOfAnEpochOverHosts) {
  TrainingJob job;
  job.cell = {.strategy = "ddp", .world_size = 2};
  job.cores = {{0}, {1}};
  job.per_device_batch = 8;
  auto channels = launch::RankChannels::create({.ranks = 2, .step_capacity = 1});
  for (int rank = 0; rank < 2; ++rank) {
    const double begin_s = rank == 0 ? 600 : 100;
    RankResult result = result_on(rank == 0 ? "a" : "b");
    if (rank == 1) result.clock = {{99, -500, 1e-5}, {103, -500, 1e-5}};
    result.epochs = {{.epoch = 0,
                      .begin_s = begin_s,
                      .end_s = begin_s + 2,
                      .samples = 8,
                      .loss_sum = 8,
                      .correct = 4,
                      .counted = 8}};
    channels.writer(rank).result(encoded(result));
    channels.writer(rank).append(step_at(begin_s));
  }
  const report::Run run = collect_run(job, channels, {});
  ASSERT_EQ(run.epochs.size(), 1U);
  EXPECT_NEAR(run.epochs[0].time_s, 2, kTimeRounding);
  ASSERT_EQ(run.clocks.size(), 2U);
  EXPECT_EQ(run.clocks[1].offset_s.value, -500);
}

}  // namespace
}  // namespace ddpbench::bench
