// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"

namespace ddpbench::report {
namespace {

TEST(Quantile, InterpolatesBetweenClosestRanksAsNumpyDoes) {
  // The ranks for n = 5 are q * 4. numpy.quantile([1, 2, 4, 8, 16], [.05, .25, .5, .6, .95, .99]).
  const std::vector<double> sorted = {1, 2, 4, 8, 16};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.6), 5.6);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.95), 14.4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.99), 15.68);
}

TEST(Quantile, EndsAreSmallestAndLargest) {
  const std::vector<double> sorted = {-3, 0, 7};
  EXPECT_EQ(quantile(sorted, 0), -3);
  EXPECT_EQ(quantile(sorted, 1), 7);
}

TEST(Quantile, OfOneValueIsThatValue) {
  const std::vector<double> one = {2.5};
  for (const double q : {0.0, 0.3, 0.5, 1.0}) EXPECT_EQ(quantile(one, q), 2.5);
}

TEST(Quantile, RefusesNoValuesAndFractionsOutsideTheUnitInterval) {
  const std::vector<double> some = {1, 2};
  EXPECT_THROW(quantile({}, 0.5), InternalError);
  EXPECT_THROW(quantile(some, -0.1), InternalError);
  EXPECT_THROW(quantile(some, 1.1), InternalError);
  EXPECT_THROW(quantile(some, std::nan("")), InternalError);
}

TEST(Median, NeedsNoOrderAndAveragesTheMiddleTwo) {
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Summary, HoldsTheQuantilesOfUnsortedValues) {
  const StepStatistics s = summarize({16, 1, 8, 2, 4});
  EXPECT_EQ(s.median, 4);
  EXPECT_EQ(s.iqr.value, 6);  // 8 - 2
  EXPECT_DOUBLE_EQ(s.p5, 1.2);
  EXPECT_DOUBLE_EQ(s.p95, 14.4);
  EXPECT_DOUBLE_EQ(s.p99, 15.68);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 16);
}

TEST(Summary, OfOneValueHasNoSpread) {
  const StepStatistics s = summarize({0.25});
  EXPECT_EQ(s.median, 0.25);
  EXPECT_FALSE(s.iqr.value);
  EXPECT_EQ(s.iqr.reason, "one value has no spread");
  EXPECT_EQ(s.min, s.max);
}

TEST(Summary, OfNothingIsRefused) { EXPECT_THROW(summarize({}), InternalError); }

TEST(SlowestRank, IsTakenStepByStep) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {3, 4, 2.5}, {2, 1, 9}};
  EXPECT_EQ(slowest_rank_per_step(ranks), (std::vector<double>{3, 5, 9}));
}

TEST(SlowestRank, LeavesOutStepsThatNotAllRanksFinished) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {3, 4}};
  EXPECT_EQ(slowest_rank_per_step(ranks), (std::vector<double>{3, 5}));
}

TEST(SlowestRank, IsEmptyWhenARankHasNoStepsOrThereAreNoRanks) {
  const std::vector<std::vector<double>> ranks = {{1, 5, 2}, {}};
  EXPECT_TRUE(slowest_rank_per_step(ranks).empty());
  EXPECT_TRUE(slowest_rank_per_step({}).empty());
}

TEST(Bandwidth, CountsGigabytesOfTenToTheNine) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth_gb_per_s(2e9, 0.5), 4);
  EXPECT_THROW(algorithm_bandwidth_gb_per_s(1, 0), InternalError);
}

TEST(Bandwidth, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor("all_reduce", 2), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor("all_reduce", 4), 1.5);
  for (const char* collective : {"all_gather", "reduce_scatter", "gather", "scatter"}) {
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(collective, 4), 0.75) << collective;
  }
  for (const char* collective : {"broadcast", "reduce", "send", "recv"}) {
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(collective, 4), 1) << collective;
  }
  EXPECT_EQ(bus_bandwidth_factor("all_reduce", 1), 0);
}

TEST(Bandwidth, RefusesUnknownCollectivesAndNoRanks) {
  EXPECT_THROW(bus_bandwidth_factor("allreduce", 2), InternalError);
  EXPECT_THROW(bus_bandwidth_factor("all_reduce", 0), InternalError);
}

DeviceRow device_of(double step_s, std::map<std::string, Figure> phases) {
  DeviceRow device;
  device.step_time_median_s = Figure::of(step_s);
  device.phases = std::move(phases);
  return device;
}

TEST(BusyShare, IsWhatADeviceComputesOfItsStep) {
  const DeviceRow primary = device_of(0.1, {{"forward_s", Figure::of(0.02)},
                                            {"backward_s", Figure::of(0.04)},
                                            {"optimizer_s", Figure::of(0.01)},
                                            {"comm_wait_s", Figure::of(0.03)}});
  EXPECT_NEAR(*busy_share(primary).value, 0.7, 1e-12);
  DeviceRow other = device_of(0.1, {{"forward_s", Figure::of(0.02)},
                                    {"backward_s", Figure::of(0.01)},
                                    {"optimizer_s", Figure::missing("the primary updates")}});
  EXPECT_NEAR(*busy_share(other).value, 0.3, 1e-12);
  report::Run run;
  run.devices = {primary, other, primary};
  EXPECT_TRUE(knows_busy_shares(run));
  other.phases["backward_s"] = Figure::missing("observing is off");
  EXPECT_EQ(busy_share(other).reason, "observing is off");
  other.role = "server";
  EXPECT_FALSE(busy_share(other).value);
  EXPECT_FALSE(knows_busy_shares(report::Run{}));
}

TEST(FlopsPerSecond, AreThoseOfASampleTimesTheRateOfADevice) {
  report::Run run;
  run.samples_per_s_per_device = Figure::of(3000);
  EXPECT_EQ(flops_per_s_per_device(run).reason, "the network's operations were not recorded");
  run.flops_per_sample = 70e6;
  EXPECT_DOUBLE_EQ(*flops_per_s_per_device(run).value, 210e9);
}

TEST(PeakShare, IsThatOfTheMeasuredPeak) {
  report::Run run;
  run.samples_per_s_per_device = Figure::of(3000);
  run.flops_per_sample = 70e6;
  EXPECT_EQ(peak_share(run).reason, "not recorded");
  run.peak_flops_per_s_per_device = Figure::missing("the devices share cores");
  EXPECT_EQ(peak_share(run).reason, "the devices share cores");
  run.peak_flops_per_s_per_device = Figure::of(420e9);
  EXPECT_DOUBLE_EQ(*peak_share(run).value, 0.5);
  run.flops_per_sample.reset();
  EXPECT_EQ(peak_share(run).reason, "the network's operations were not recorded");
}

// By hand: class 0 has 3 of 4 + 4 - 3 pixels, class 1 1 of 2 + 2 - 1, class 2 none, nor is it
// guessed.
TEST(MeanIou, IsThatOfTheClassesThatAreThere) {
  ClassCounts counts = {{2, 3, 2}, {0, 1, 1}, {}};
  add_counts(counts, {{1, 1, 2}, {1, 1, 1}});
  EXPECT_DOUBLE_EQ(mean_iou(counts).value(), (3.0 / 5 + 1.0 / 3) / 2);
  EXPECT_FALSE(mean_iou({}));
  EXPECT_FALSE(mean_iou(ClassCounts(21)));
  ClassCounts none;
  add_counts(none, counts);
  EXPECT_EQ(none.size(), 3u);
}

Run trained_to(const std::vector<double>& accuracies, double target) {
  Run run;
  for (const double accuracy : accuracies) {
    run.epochs.push_back(
        {static_cast<int>(run.epochs.size()), 10, 100, 10, 0.1, 0.9, Figure::of(accuracy)});
  }
  run.until_accuracy = AccuracyTarget{target, {}};
  fill_time_to_accuracy(run);
  return run;
}

TEST(TimeToAccuracy, IsThatOfTheEpochsUntilTheFirstThatReachedIt) {
  EXPECT_EQ(time_to_accuracy(trained_to({0.9, 0.98, 0.97}, 0.98)).value, 20);
  EXPECT_EQ(time_to_accuracy(trained_to({0.07}, 0.07000000000000001)).value, 10);
  EXPECT_FALSE(time_to_accuracy(report::Run{}).value);
}

TEST(TimeToAccuracy, MayBeThatToAMeanIou) {
  report::Run run = trained_to({0.9, 0.98, 0.99}, 0.5);
  run.until_accuracy = AccuracyTarget{0.5, {}, "miou"};
  for (EpochRow& epoch : run.epochs) epoch.test_miou = 0.2 + 0.2 * epoch.epoch;
  EXPECT_EQ(final_miou(run).value, 0.2 + 0.2 * 2);
  fill_time_to_accuracy(run);
  EXPECT_EQ(time_to_accuracy(run).value, 30);
  run.until_accuracy->target = 0.7;
  fill_time_to_accuracy(run);
  EXPECT_EQ(time_to_accuracy(run).reason,
            "70 % mIoU was not reached in 3 epochs: at best 60.00 % (--epochs allows more)");
}

TEST(TimeToAccuracy, SaysHowFarARunCameThatMissedIt) {
  EXPECT_EQ(time_to_accuracy(trained_to({0.9, 0.97996, 0.95}, 0.98)).reason,
            "98 % was not reached in 3 epochs: at best 97.99 % (--epochs allows more)");
  EXPECT_EQ(time_to_accuracy(trained_to({0.971}, 0.981)).reason,
            "98.1 % was not reached in 1 epoch: 97.10 % (--epochs allows more)");
  EXPECT_EQ(time_to_accuracy(trained_to({}, 0.98)).reason, "not evaluated");
}

TEST(TimeToAccuracy, ExcusesARunThatEndedEarlyByItsStatus) {
  report::Run run = trained_to({0.5}, 0.98);
  run.status = Status::interrupted;
  fill_time_to_accuracy(run);
  EXPECT_EQ(time_to_accuracy(run).reason, "the run was interrupted");
}

TEST(OverlapRatio, IsTheHiddenShare) { EXPECT_DOUBLE_EQ(*overlap_ratio(6, 4).value, 4.0 / 6); }

TEST(OverlapRatio, IsMissingWithoutCommunication) {
  const Figure ratio = overlap_ratio(0, 0);
  EXPECT_FALSE(ratio.value);
  EXPECT_EQ(ratio.reason, "no communication");
}

TEST(StageIdle, IsToldBesideItsBound) {
  report::Run run;
  run.strategy_options = {{"stages", "2"}, {"micro_batches", "4"}};
  for (const double waits_s : {0.1, 0.4}) {
    DeviceRow& device = run.devices.emplace_back();
    device.step_time_median_s = Figure::of(1);
    device.phases["stage_wait_s"] = Figure::of(waits_s);
  }
  EXPECT_EQ(stage_idle_words(run), "stages idle 10/40 % (equal ones at least 20 %)");
  EXPECT_EQ(stage_idle_words(report::Run{}), "");
}

}  // namespace
}  // namespace ddpbench::report
