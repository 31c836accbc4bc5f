// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The model on numbers of devices that nobody measured, against figures computed by hand, and what
// reports give it.
#include "reports/predict/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/json/report_json.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/history.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/scaling.h"
#include "reports/pictures/picture.h"
#include "reports/why/why.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_run;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMs = 1e-3;

Transfer all_reduce(double bytes, double ready_s = 0, double seconds = 0) {
  return {.collective = "all_reduce", .bytes = bytes, .ready_s = ready_s, .seconds = seconds};
}

// Two buckets of so many bytes, ready after 10 ms and when backward ends, after 14 ms; 1 ms is
// left.
StepModel two_buckets(double bytes) {
  StepModel model;
  model.ranks = 2;
  model.backward_end_s = 14 * kMs;
  model.hidden = {all_reduce(bytes, 10 * kMs), all_reduce(bytes, 14 * kMs)};
  model.rest_s = 1 * kMs;
  return model;
}

const CommCost kGigabyte(0, 1e9);

CollectiveRow measured(const char* operation, int ranks, std::uint64_t bytes, double seconds) {
  CollectiveRow row = test::collective_row(seconds, bytes);
  row.operation = operation;
  row.ranks = ranks;
  row.all_reduce = "ring";
  return row;
}

TEST(StepModel, HidesABucketThatBackwardOutlastsAndExposesTheLast) {
  EXPECT_NEAR(two_buckets(1e6).step_s(2, &kGigabyte), 16 * kMs, 1e-12);    // 14 + 1 + 1
  EXPECT_NEAR(two_buckets(1e6).step_s(4, &kGigabyte), 16.5 * kMs, 1e-12);  // 2 (n-1)/n = 1.5
}

TEST(StepModel, ABucketWaitsForTheOneBeforeIt) {
  EXPECT_NEAR(two_buckets(1e7).step_s(2, &kGigabyte), 31 * kMs, 1e-12);  // 10 + 10 + 10 + 1
  EXPECT_NEAR(two_buckets(1e7).step_s(4, &kGigabyte), 41 * kMs, 1e-12);  // 10 + 15 + 15 + 1
}

TEST(StepModel, LatencyGrowsWithTheStepsOfTheRing) {
  const CommCost slow(1 * kMs, 1e15);
  EXPECT_NEAR(two_buckets(1).step_s(2, &slow), 17 * kMs, 1e-9);  // 14 + 2 + 1
  EXPECT_NEAR(two_buckets(1).step_s(8, &slow), 39 * kMs, 1e-9);  // 10 + 14 + 14 + 1
}

TEST(StepModel, OneDeviceExchangesNothing) {
  EXPECT_NEAR(two_buckets(1e7).step_s(1, &kGigabyte), 15 * kMs, 1e-12);
}

TEST(StepModel, StrongScalingDividesComputeAndNotTheRest) {
  StepModel model = two_buckets(1e6);
  model.divides_batch = true;
  EXPECT_NEAR(model.step_s(4, &kGigabyte), 9.5 * kMs, 1e-12);  // 7 + 1.5 + 1
}

TEST(StepModel, ALoaderThatDoesNotKeepUpSetsThePace) {
  StepModel model = two_buckets(1e6);
  model.loader_s = 40 * kMs;
  EXPECT_NEAR(model.step_s(64, &kGigabyte), 40 * kMs, 1e-12);
  model.divides_batch = true;
  EXPECT_NEAR(model.step_s(4, &kGigabyte), 20 * kMs, 1e-12);
}

TEST(StepModel, MeasuredTransfersAreSplitIntoLatencyAndBytes) {
  StepModel model = two_buckets(0);
  // 0.5 ms a step and 1 ns a byte; between 4 there are 3 times the steps and 1.5 times the bytes.
  model.hidden = {all_reduce(1e6, 10 * kMs, 2 * kMs), all_reduce(3e6, 14 * kMs, 4 * kMs)};
  EXPECT_NEAR(model.step_s(2, nullptr), 19 * kMs, 1e-12);    // 14 + 4 + 1
  EXPECT_NEAR(model.step_s(4, nullptr), 20.5 * kMs, 1e-12);  // 14 + 1 + 4.5 + 1
  model.direct = true;                                       // always two steps
  EXPECT_NEAR(model.step_s(4, nullptr), 20.5 * kMs, 1e-12);  // 14 + 1 + 4.5 + 1
}

// The root of 8 takes the whole buffer thrice, and sends 7 parts of it.
TEST(StepModel, ATreeMovesTheWholeBufferOnEachLevelAndThenScattersIt) {
  const Transfer tree{.collective = "reduce_scatter", .bytes = 8e6, .tree = true};
  EXPECT_DOUBLE_EQ(link_bytes(tree, 8), 31e6);
  EXPECT_DOUBLE_EQ(link_bytes(tree, 5), 30.4e6);
  EXPECT_DOUBLE_EQ(link_bytes(tree, 2), 12e6);
  EXPECT_EQ(link_steps(tree, 8, false), 4);
}

TEST(StepModel, TransfersOfOneSizeAreTakenForBytes) {
  StepModel model = two_buckets(0);
  model.hidden = {all_reduce(1e6, 10 * kMs, 1 * kMs), all_reduce(1e6, 14 * kMs, 2 * kMs)};
  EXPECT_NEAR(model.step_s(4, nullptr), 18 * kMs, 1e-12);  // 14 + 1.5 x 2 + 1
}

TEST(StepModel, FitLeavesToTheRestWhatTheModelDoesNotTell) {
  StepModel model = two_buckets(0);
  model.hidden = {all_reduce(1e6, 10 * kMs, 1 * kMs), all_reduce(1e6, 14 * kMs, 1 * kMs)};
  model.samples_s = {19 * kMs, 20 * kMs};
  model.fit(20 * kMs, 2 * kMs);
  EXPECT_NEAR(model.rest_s, 5 * kMs, 1e-12);
  EXPECT_NEAR(model.step_s(2, nullptr), 20 * kMs, 1e-12);
  model.loader_s = 20 * kMs;  // then the wait is its
  model.fit(20 * kMs, 2 * kMs);
  EXPECT_NEAR(model.rest_s, 3 * kMs, 1e-12);
}

// Gradients reduce to their owners, weights are gathered, and each updates its part.
TEST(StepModel, ShardsShareTheUpdateAndGatherWeightsAfterIt) {
  StepModel model = two_buckets(0);
  model.hidden = {{.collective = "reduce_scatter", .bytes = 1e7, .ready_s = 14 * kMs}};
  model.exposed = {{.collective = "all_gather", .bytes = 1e7}};
  model.shared_update_s = 2 * kMs;
  EXPECT_NEAR(model.step_s(2, &kGigabyte), 27 * kMs, 1e-12);  // 14 + 5 + 2 + 5 + 1
  EXPECT_NEAR(model.step_s(4, &kGigabyte), 31 * kMs, 1e-12);  // 14 + 7.5 + 1 + 7.5 + 1
}

TEST(StepModel, WeightsThatMoveEveryFewStepsCostAPartEachStep) {
  StepModel model = two_buckets(0);
  model.hidden.clear();
  model.exposed = {all_reduce(1e7)};
  model.cycle = 5;
  EXPECT_NEAR(model.step_s(2, &kGigabyte), 17 * kMs, 1e-12);  // 14 + 10/5 + 1
}

TEST(StepModel, OneServerServesAllWorkersOverItsLink) {
  StepModel model = two_buckets(0);
  model.hidden = {{.collective = "push", .bytes = 1e6, .servers = 1, .ready_s = 14 * kMs}};
  EXPECT_NEAR(model.step_s(8, &kGigabyte), 23 * kMs, 1e-12);  // 14 + 8 + 1
  model.hidden[0].servers = 4;
  EXPECT_NEAR(model.step_s(8, &kGigabyte), 17 * kMs, 1e-12);  // 14 + 2 + 1
  EXPECT_NEAR(model.step_s(2, &kGigabyte), 16 * kMs, 1e-12);  // the worker's own link
}

TEST(StepModel, TheSlowestOfMoreDevicesIsSlower) {
  const std::vector<double> samples = {10, 20};
  EXPECT_DOUBLE_EQ(expected_slowest(samples, 1), 15);
  EXPECT_DOUBLE_EQ(expected_slowest(samples, 2), 17.5);  // 10/4 + 20 x 3/4
  EXPECT_NEAR(expected_slowest(samples, 1000), 20, 1e-9);
  StepModel model = two_buckets(1e6);
  model.samples_s = {10 * kMs, 20 * kMs};
  EXPECT_NEAR(model.step_s(4, &kGigabyte), 19 * kMs, 1e-12);  // 16.5 + 2.5
}

// What is in proportion to the devices would not end.
TEST(StepModel, ABillionDevicesTakeNoLongerToPredict) {
  StepModel model = two_buckets(1e6);
  model.samples_s.assign(1000, 0.016);
  EXPECT_GT(model.step_s(1'000'000'000, &kGigabyte), 16 * kMs);
}

TEST(CommCost, IsLinearBetweenMeasuredSizes) {
  const std::vector<CollectiveRow> rows = {measured("all_reduce", 2, 1'000'000, 2 * kMs),
                                           measured("all_reduce", 2, 3'000'000, 4 * kMs)};
  const CommCost cost(rows, "comm.json");
  EXPECT_NEAR(cost.seconds(all_reduce(2e6), 2), 3 * kMs, 1e-12);
  EXPECT_NEAR(cost.seconds(all_reduce(5e6), 2), 6 * kMs, 1e-12);
  EXPECT_NEAR(cost.seconds(all_reduce(10), 2), 2 * kMs, 1e-12);  // all latency
  // Of the 3 ms 1 is latency: 3 x 1 + 1.5 x 2.
  EXPECT_NEAR(cost.seconds(all_reduce(2e6), 4), 6 * kMs, 1e-12);
  // Half of an all-reduce.
  const Transfer half{.collective = "reduce_scatter", .bytes = 2e6};
  EXPECT_NEAR(cost.seconds(half, 2), 1.5 * kMs, 1e-12);
  const Transfer push{.collective = "push", .bytes = 2e6, .servers = 1};
  EXPECT_NEAR(cost.seconds(push, 2), 4.5 * kMs, 1e-12);  // half the latency, twice the bytes
}

TEST(CommCost, PrefersTheCollectiveAndTheRanksThatWereMeasured) {
  const std::vector<CollectiveRow> rows = {measured("all_reduce", 2, 1'000'000, 1 * kMs),
                                           measured("all_reduce", 8, 1'000'000, 7 * kMs),
                                           measured("all_gather", 2, 1'000'000, 5 * kMs)};
  const CommCost cost(rows, "comm.json");
  EXPECT_NEAR(cost.seconds(all_reduce(1e6), 7), 12.0 / 7 * kMs, 1e-12);
  EXPECT_NEAR(cost.seconds(all_reduce(1e6), 8), 7 * kMs, 1e-12);
  // int8: each of 4 ranks gives 250 kB, so the whole grows with the ranks.
  Transfer parts{.collective = "all_gather", .bytes = 250'000, .of_part = true};
  EXPECT_NEAR(cost.seconds(parts, 4), 7.5 * kMs, 1e-12);  // (n-1)/n: 1.5 of that between 2
}

// ---- what reports give it ----

void set_step(Run& run, double seconds) {
  run.step.time_s = StepStatistics{seconds, {}, seconds, seconds, seconds, seconds, seconds};
  run.step.samples_s = {seconds};
}

// Its buckets, of 1 MB, are ready after 10 and 14 ms, and take 1 ms once the other rank has come.
Run bucketed(const char* strategy, int devices, double step_s = 16 * kMs) {
  Run run = sample_run(strategy, devices, 64 * devices / step_s);
  set_step(run, step_s);
  run.phases["data_wait_s"] = Figure::of(0);
  for (DeviceRow& device : run.devices) {
    const double wait_s = devices > 1 ? 1 * kMs : 0;
    device.buckets = {{0, 1'000'000, 10 * kMs, 10 * kMs, 10 * kMs, 10 * kMs + wait_s},
                      {1, 1'000'000, 14 * kMs, 14 * kMs, 14 * kMs, 14 * kMs + wait_s}};
  }
  return run;
}

std::vector<PredictedRow> predicted(const Report& report, std::vector<int> devices,
                                    std::optional<CommCost> cost = {}) {
  return predict(report, "r.json", {std::move(devices), std::move(cost), "as in these runs", {}});
}

std::vector<double> steps_ms(const std::vector<PredictedRow>& rows) {
  std::vector<double> steps;
  for (const PredictedRow& row : rows) steps.push_back(std::round(1e9 * row.step_s) / 1e6);
  return steps;
}

std::string refused(const Report& report, std::optional<CommCost> cost = {}) {
  try {
    predicted(report, {4}, std::move(cost));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return test::kNothingThrown;
}

TEST(Prediction, ExtendsTheRunOnTheFewestDevicesAndSaysHowFarOffItIs) {
  const Report report = report_of(
      {bucketed("ddp", 4, 17 * kMs), bucketed("ddp", 2), bucketed("single", 1, 15 * kMs)});
  const auto rows = predicted(report, {1, 2, 4, 64});
  EXPECT_THAT(steps_ms(rows), ElementsAre(15, 15, 16, 16.5, 16.96875));
  EXPECT_EQ(rows[0].name, "single");
  EXPECT_EQ(rows[3].name, "ddp");
  EXPECT_EQ(rows[3].measured_s, 17 * kMs);
  EXPECT_EQ(rows[4].measured_s, std::nullopt);
  EXPECT_NEAR(rows[3].samples_per_s, 4 * 64 / 16.5e-3, 1e-6);
  EXPECT_NEAR(*rows[3].speedup.value, 4 * 15 / 16.5, 1e-9);
  EXPECT_NEAR(*rows[3].training_s, 60000 / rows[3].samples_per_s, 1e-9);
  const std::string text = prediction_text(rows, {{}, {}, "as in these runs", 2.5}, 100);
  EXPECT_THAT(text, AllOf(HasSubstr(" fit "), HasSubstr(" -2.9 "), HasSubstr(" extrapolated "),
                          HasSubstr("Fitted on single on 1 device, ddp on 2 devices; "),
                          HasSubstr("1 epoch of 60000 samples, at 2.5 an hour and device.")));
}

TEST(Prediction, OneDeviceStandsForDdpOnANetworkThatIsGiven) {
  const Report report = report_of({bucketed("single", 1, 15 * kMs)});
  const auto rows = predicted(report, {1, 4}, kGigabyte);
  EXPECT_THAT(steps_ms(rows), ElementsAre(15, 16.5));
  EXPECT_EQ(rows[1].name, "ddp");
  // Without buckets in the report they are those of ddp's sizes, as backward goes on.
  report::Run old = bucketed("single", 1, 20 * kMs);
  old.devices[0].buckets.clear();
  old.parameters = 1'000'000;
  // 1 MiB is ready after 6 + 12 x 0.262144 ms, and all 4 MB move one after the other from then on.
  const CommCost slow(0, 1e8);
  EXPECT_NEAR(predicted(report_of({old}), {2}, slow)[0].step_s, (9.145728 + 40 + 2) * kMs, 1e-9);
}

TEST(Prediction, TellsGradientsFromWhatFollowsThem) {
  report::Run zero = bucketed("zero1", 2, 20 * kMs);
  for (DeviceRow& device : zero.devices) {
    device.buckets.push_back({2, 64, 14 * kMs, 15 * kMs, 15 * kMs, 15 * kMs});
    device.buckets.push_back({3, 1'000'000, 16 * kMs, 16 * kMs, 16 * kMs, 17 * kMs});
    device.buckets.push_back({4, 1'000'000, 17 * kMs, 17 * kMs, 17 * kMs, 18 * kMs});
  }
  // Of 3 ms that are exposed each grows to 1.5; of the update (1 ms) half is left.
  EXPECT_THAT(steps_ms(predicted(report_of({zero}), {4})), ElementsAre(21));
  report::Run local = bucketed("localsgd", 2, 20 * kMs);
  local.strategy_options["sync_every"] = "4";
  EXPECT_THAT(steps_ms(predicted(report_of({local}), {4})), ElementsAre(20.25));
  report::Run ps = bucketed("ps", 2, 20 * kMs);
  ps.servers = 1;
  EXPECT_THAT(steps_ms(predicted(report_of({ps}), {4})), ElementsAre(22));
}

TEST(Prediction, AHookThatGathersSendsMoreAmongMoreDevices) {
  report::Run run = bucketed("ddp", 2);
  run.strategy_options["comm_hook"] = "int8";
  EXPECT_THAT(steps_ms(predicted(report_of({run}), {4})), ElementsAre(18));  // 14 + 3 + 1
}

TEST(Prediction, WithoutOverlapBucketsMoveAfterBackward) {
  report::Run run = bucketed("ddp", 2, 17 * kMs);
  run.strategy_options["overlap"] = "off";
  for (DeviceRow& device : run.devices) {
    device.buckets[0] = {0, 1'000'000, 10 * kMs, 14 * kMs, 14 * kMs, 15 * kMs};
    device.buckets[1] = {1, 1'000'000, 14 * kMs, 15 * kMs, 15 * kMs, 16 * kMs};
  }
  EXPECT_THAT(steps_ms(predicted(report_of({run}), {4})), ElementsAre(18));
}

TEST(Prediction, MemoryOfShardsShrinks) {
  report::Run zero = bucketed("zero1", 2);
  for (DeviceRow& device : zero.devices) device.by_category_bytes["optimizer"] = 8'000'000;
  zero.devices[0].peak_bytes = 40'000'000;
  EXPECT_EQ(predicted(report_of({zero}), {8})[0].memory_bytes, 34'000'000);
  EXPECT_EQ(predicted(report_of({bucketed("ddp", 2)}), {8})[0].memory_bytes, 40 * 1048576);
}

void disturb(Run& run) { run.conditions = Conditions{.other_load_ratio = Figure::of(0.71)}; }

std::string text_of(const Report& report, std::vector<int> devices) {
  return prediction_text(predicted(report, std::move(devices)), {{}, {}, "as there", {}}, 100);
}

// `show` has no speed-up of these runs either.
TEST(Prediction, OfADisturbedRunHasNoSpeedupAndSaysWhy) {
  Report report = report_of({bucketed("single", 1, 15 * kMs), bucketed("ddp", 2)});
  disturb(report.runs[1]);
  EXPECT_EQ(predicted(report, {4})[0].speedup.value, std::nullopt);
  EXPECT_THAT(text_of(report, {1, 4}),
              AllOf(HasSubstr(" 1.00 "), HasSubstr(" -(1) "),
                    HasSubstr("\n(1) other programs used 71 % of the CPU\n")));
  const Report predictions = predicted_report(report, predicted(report, {4}));
  EXPECT_THAT(condition_warnings(predictions).at(0).text, HasSubstr("used 71 % of the CPU"));
  disturb(report.runs[0]);
  report.runs[1].conditions = {};
  EXPECT_THAT(text_of(report, {4}), HasSubstr("(1) baseline disturbed: other programs used 71 %"));
}

TEST(Prediction, MarksADisturbedRunThatItIsComparedWith) {
  Report report = report_of(
      {bucketed("single", 1, 15 * kMs), bucketed("ddp", 2), bucketed("ddp", 4, 17 * kMs)});
  disturb(report.runs[2]);
  EXPECT_THAT(text_of(report, {4}),
              AllOf(HasSubstr(" 3.64  17.00(1) "), HasSubstr(" -2.9 "),
                    HasSubstr("\n(1) other programs used 71 % of the CPU\n")));
}

TEST(Prediction, MarksOversubscribedRuns) {
  Report report = report_of(
      {bucketed("single", 1, 15 * kMs), bucketed("ddp", 2), bucketed("ddp", 4, 17 * kMs)});
  report.runs[2].oversubscribed = true;
  EXPECT_THAT(text_of(report, {4}), AllOf(HasSubstr(" 3.64  17.00(1) "),
                                          HasSubstr("\n(1) more compute threads than cores\n")));
  report.runs[1].oversubscribed = true;
  const auto rows = predicted(report, {4});
  EXPECT_EQ(rows[0].speedup.reason, "more compute threads than cores");
  const Report predictions = predicted_report(report, rows);
  EXPECT_TRUE(predictions.runs[0].oversubscribed);
  EXPECT_THAT(answer_lines(all_runs(predictions)), ::testing::IsEmpty());
}

// That has no backend, and none of the options for several.
TEST(Prediction, IsComparedWithTheRunOnOneDevice) {
  Report report = report_of({bucketed("localsgd", 1, 15.5 * kMs), bucketed("localsgd", 2),
                             bucketed("ddp", 1, 15 * kMs), bucketed("ddp", 2)});
  for (const std::size_t alone : {0U, 2U}) report.runs[alone].backend = "none";
  report.runs[1].strategy_options["sync_every"] = "4";
  report.runs[3].strategy_options["comm_hook"] = "int8";  // which the run on one device has not
  const auto rows = predicted(report, {1});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].measured_s, std::nullopt);
  EXPECT_EQ(rows[1].measured_s, 15.5 * kMs);
  EXPECT_THAT(prediction_text(rows, {}, 0), Not(HasSubstr("fit ")));
  report.runs[3].strategy_options.clear();
  EXPECT_EQ(predicted(report, {1})[0].measured_s, 15 * kMs);
}

TEST(Prediction, TakesTheMedianOverRepetitions) {
  Report report = report_of({bucketed("single", 1, 15 * kMs), bucketed("single", 1, 16 * kMs),
                             bucketed("ddp", 2, 16 * kMs), bucketed("ddp", 2, 18 * kMs)});
  report.runs[1].repetition = report.runs[3].repetition = 1;
  const auto rows = predicted(report, {1, 2});
  EXPECT_THAT(steps_ms(rows), ElementsAre(15.5, 16, 17));
  EXPECT_NEAR(*rows[0].speedup.value, 1, 1e-12);
  EXPECT_NEAR(*rows[2].measured_s, 17 * kMs, 1e-12);
}

// A server on one device sends, so that another network shows in its error.
TEST(Prediction, OnAnotherNetworkOnlyARunThatSendsNothingIsItsFit) {
  report::Run ps = bucketed("ps", 1, 20 * kMs);
  ps.servers = 1;
  EXPECT_THAT(
      prediction_text(predicted(report_of({ps}), {1}, kGigabyte), {{}, kGigabyte, "", {}}, 0),
      AllOf(HasSubstr(" +"), Not(HasSubstr(" fit "))));
}

// What a report of two rows holds, as others read it.
struct PredictedReport : ::testing::Test {
  PredictedReport() {
    measured.generator = {"0.1.0", std::nullopt, std::nullopt, "built outside a git checkout"};
    measured.started_at = measured.finished_at = "2026-01-31T12:00:00Z";
    predictions = predicted_report(measured, predicted(measured, {4, 8}));
    predictions.started_at = predictions.finished_at = measured.started_at;
    predictions.argv = {"ddpbench", "predict", "r.json", "--gpus=4,8"};
  }

  Report measured = report_of({bucketed("single", 1, 15 * kMs), bucketed("ddp", 2)});
  Report predictions;
};

TEST_F(PredictedReport, IsValidAndKeepsItsMarksWhenItIsRead) {
  const auto written = to_json(predictions);
  EXPECT_THAT(ddpbench::test::schema_errors(nlohmann::json(written), DDPBENCH_REPORT_SCHEMA),
              ::testing::IsEmpty());
  const Report read = parse_report(written.dump(), "p.json");
  ASSERT_EQ(read.runs.size(), 2U);
  EXPECT_TRUE(read.runs[1].predicted);
  EXPECT_EQ(read.runs[1].world_size, 8);
  EXPECT_EQ(read.runs[1].global_batch_size, 512);
  EXPECT_NEAR(read.runs[0].step.time_s->median, 16.5 * kMs, 1e-12);
  EXPECT_EQ(read.runs[0].scaling_reason, "predicted, not measured");
  EXPECT_FALSE(to_json(measured)["runs"][0].contains("predicted"));
}

TEST_F(PredictedReport, IsNeverRankedExplainedOrScaled) {
  const std::vector<ReportFile> files = {{"r.json", measured}, {"p.json", predictions}};
  EXPECT_FALSE(files[1].report.runs[0].scaling);
  const std::vector<RunRow> rows = all_runs(files);
  const auto is_predicted = [](const RunRow& row) { return row.run->predicted; };
  for (const Contest& contest : contests(rows)) {
    for (const Standing& standing : contest.standings)
      EXPECT_TRUE(std::ranges::none_of(standing.runs, is_predicted)) << standing.name;
  }
  EXPECT_TRUE(std::ranges::none_of(
      rows, [&](const RunRow& row) { return is_predicted(row) && is_explained(row); }));
  EXPECT_EQ(history_of(rows).left_out, 2U);
  EXPECT_THROW(predicted(predictions, {16}), ConfigError);
}

TEST_F(PredictedReport, IsDrawnDashedBesideWhatWasMeasured) {
  const std::vector<Report> reports = {measured, predictions};
  const pictures::Picture picture =
      pictures::scaling_picture(scaling_chart(reports), pictures::Medium::file);
  ASSERT_EQ(picture.legend.size(), 4U);  // single, ddp, ddp predicted, ideal
  EXPECT_EQ(picture.legend[1].classes, "s2");
  EXPECT_EQ(picture.legend[2].name, "ddp, predicted");
  EXPECT_EQ(picture.legend[2].classes, "s2 v1 predicted");
  EXPECT_THAT(picture.caption.notes, ::testing::Contains(HasSubstr("predicted, not measured")));
}

TEST(Prediction, SaysWhatItLacks) {
  EXPECT_THAT(
      refused(test::collective_report(0.001)),
      AllOf(HasSubstr("predict: r.json has no good run of ddp, zero1, zero2, ps or localsgd"),
            Not(HasSubstr("\n"))));
  EXPECT_THAT(refused(report_of({bucketed("single", 1)})),
              HasSubstr("--comm or --link must say what communication costs"));
  EXPECT_THAT(refused(report_of({bucketed("dp", 2)}), kGigabyte), HasSubstr("no good run"));
  EXPECT_THROW(CommCost({}, "x.json"), ConfigError);
}

}  // namespace
}  // namespace ddpbench::report
