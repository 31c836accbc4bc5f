// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// to_json: its keys, missing figures, and which reports it refuses.
#include "reports/json/report_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/data/report.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> keys(const ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

ordered_json run_of(const Report& report, std::size_t index) {
  return to_json(report)["runs"][index];
}

std::string error_of(const Report& report) {
  try {
    to_json(report);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ReportJson, HasTheKeysOfTheDesignInOrder) {
  const ordered_json written = to_json(test::sample_report());
  EXPECT_THAT(keys(written),
              ElementsAre("schema_version", "generator", "status", "error", "started_at",
                          "finished_at", "argv", "environment", "config", "runs"));
  EXPECT_THAT(keys(written["runs"][2]),
              ElementsAre("status", "strategy", "world_size", "servers", "repetition", "device",
                          "device_model", "threads_per_device", "backend", "precision", "model",
                          "model_hash", "parameters", "flops_per_sample", "optimizer",
                          "per_device_batch_size", "global_batch_size", "accumulation_steps",
                          "scaling_mode", "oversubscribed", "strategy_options", "injected",
                          "dataset", "time", "epochs", "progress", "step", "phases", "devices",
                          "traffic", "verification", "scaling", "throughput", "why"));
}

TEST(ReportJson, TrafficMayBeThereMissingOrNotRecorded) {
  Report report = test::sample_report();
  EXPECT_EQ(run_of(report, 1)["traffic"], ordered_json::parse(R"({"messages": 12, "bytes": 3400000,
                                    "busiest_messages": 6, "busiest_bytes": 1700000})"));
  report.runs[1].traffic = Known<StepTraffic>::missing("nccl does not tell");
  report.runs[2].traffic = {};
  EXPECT_TRUE(run_of(report, 1)["traffic"].is_null());
  EXPECT_EQ(run_of(report, 1)["traffic_reason"], "nccl does not tell");
  EXPECT_FALSE(run_of(report, 2).contains("traffic"));
  const Report again = parse_report(to_json(report).dump(), "again");
  EXPECT_EQ(again.runs[1].traffic.reason, "nccl does not tell");
  EXPECT_EQ(to_json(again), to_json(report));
}

TEST(ReportJson, KeepsTheResolvedConfigurationAsItIs) {
  EXPECT_EQ(to_json(test::sample_report())["config"].dump(),
            R"({"strategies":["single","dp"],"dataset":{"name":"mnist"},"lr":0.01})");
}

TEST(ReportJson, OptimizersHaveNumbersAndOtherValues) {
  Report report = test::sample_report();
  report.runs[1].optimizer["beta1"] = 0.5;
  report.runs[1].optimizer_choices["nesterov"] = "on";
  const ordered_json optimizer = run_of(report, 1)["optimizer"];
  EXPECT_EQ(optimizer["name"], "sgd");
  EXPECT_EQ(optimizer["beta1"], 0.5);
  EXPECT_EQ(optimizer["nesterov"], true);
  EXPECT_EQ(to_json(parse_report(to_json(report).dump(), "again")), to_json(report));
}

TEST(ReportJson, MissingFiguresAreNullBesideTheirReason) {
  const ordered_json written = to_json(test::sample_report());
  EXPECT_TRUE(written["generator"]["git_commit"].is_null());
  EXPECT_EQ(written["generator"]["git_commit_reason"], "built outside a git checkout");
  EXPECT_TRUE(written["environment"]["cpu"]["l3_bytes"].is_null());
  EXPECT_EQ(written["environment"]["cpu"]["l3_bytes_reason"], "not reported by this system");
  const ordered_json single = written["runs"][0];
  EXPECT_TRUE(single["phases"]["comm_s"].is_null());
  EXPECT_EQ(single["phases"]["comm_s_reason"], "one device");
  EXPECT_EQ(single["verification"]["tolerance_reason"], "this run is the reference");
  EXPECT_EQ(single["backend_reason"], "one device: nothing to communicate");
}

TEST(ReportJson, FiguresThatAreThereHaveNoReason) {
  const ordered_json dp = run_of(test::sample_report(), 1);
  EXPECT_EQ(dp["phases"]["comm_s"], 0.0015);
  EXPECT_FALSE(dp["phases"].contains("comm_s_reason"));
  EXPECT_FALSE(dp.contains("scaling_reason"));
}

TEST(ReportJson, RunsThatDidNotFinishGiveThatAsTheReason) {
  const Report report = test::sample_report();
  const ordered_json failed = run_of(report, 4), skipped = run_of(report, 5);
  EXPECT_TRUE(failed["throughput"]["samples_per_s"].is_null());
  EXPECT_EQ(failed["throughput"]["samples_per_s_reason"], "the run failed");
  EXPECT_TRUE(failed["phases"]["forward_s"].is_null());
  EXPECT_EQ(failed["error"]["signal"], 9);
  EXPECT_EQ(skipped["reason"], "no CUDA device is here");
  EXPECT_TRUE(skipped["parameters"].is_null());
  EXPECT_EQ(skipped["parameters_reason"], "the run was skipped");
  EXPECT_EQ(skipped["step"]["time_s_reason"], "the run was skipped");
}

TEST(ReportJson, ServersSayWhyTheyHaveNoSteps) {
  const ordered_json server = run_of(test::sample_report(), 3)["devices"][4];
  EXPECT_EQ(server["role"], "server");
  EXPECT_EQ(server["step_time_median_s_reason"], "a server takes no steps of its own");
}

TEST(ReportJson, BytesAreIntegersAndOptionsHaveTheirTypes) {
  const ordered_json ddp = run_of(test::sample_report(), 2);
  EXPECT_TRUE(ddp["devices"][0]["memory"]["process_peak_rss_bytes"].is_number_integer());
  EXPECT_EQ(ddp["strategy_options"].dump(),
            R"({"bucket_cap_mb":25,"note":"plain","overlap":true})");
}

TEST(ReportJson, ALossThatIsNotFiniteIsAnOutcome) {
  for (const double loss : {kNan, kInfinity, -kInfinity}) {
    Report report = test::sample_report();
    report.runs[1].epochs[0].train_loss = loss;
    const ordered_json epoch = run_of(report, 1)["epochs"][0];
    EXPECT_TRUE(epoch["train_loss"].is_null());
    EXPECT_EQ(epoch["train_loss_reason"], "training diverged: the loss is not finite");
  }
}

TEST(ReportJson, RefusesAnyOtherNumberThatIsNotFiniteAndSaysWhere) {
  Report report = test::sample_report();
  report.runs[2].step.samples_s[1] = kNan;
  EXPECT_THAT(error_of(report), HasSubstr("samples_s is nan"));
  report = test::sample_report();
  report.runs[3].phases["comm_s"] = Figure::of(kInfinity);
  EXPECT_THAT(error_of(report), HasSubstr("comm_s is inf"));
  report = test::sample_report();
  report.runs[0].devices[0].process_peak_rss_bytes = Figure::of(kNan);
  EXPECT_THAT(error_of(report), HasSubstr("process_peak_rss_bytes is nan"));
}

TEST(ReportJson, RefusesFailuresWithoutAnErrorAndSkippedRunsWithoutAReason) {
  Report report = test::sample_report();
  report.error.reset();
  EXPECT_THAT(error_of(report), HasSubstr("a failed report has no error"));
  report = test::sample_report();
  report.runs[4].error.reset();
  EXPECT_THAT(error_of(report), HasSubstr("a failed ddp run has no error"));
  report = test::sample_report();
  report.runs[2].status = Status::diverged;
  EXPECT_THAT(error_of(report), HasSubstr("a diverged ddp run has no error"));
  report = test::sample_report();
  report.status = Status::diverged;
  EXPECT_THAT(error_of(report), HasSubstr("or diverge, only its runs"));
  report = test::sample_report();
  report.runs[5].reason.clear();
  EXPECT_THAT(error_of(report), HasSubstr("a skipped dp run has no reason"));
  report = test::sample_report();
  report.status = Status::skipped;
  EXPECT_THAT(error_of(report), HasSubstr("only its runs"));
}

TEST(ReportJson, RefusesAConfigurationThatIsNoObject) {
  Report report = test::sample_report();
  for (const char* text : {"[1]", "{\"a\":", "nonsense"}) {
    report.config_json = text;
    EXPECT_THAT(error_of(report), HasSubstr("not a JSON object")) << text;
  }
}

}  // namespace
}  // namespace ddpbench::report
