// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs in reports: written, read, checked against the schema, and in warnings.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/charts/chart_data.h"
#include "reports/json/report_json.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"
#include "reports/table/columns.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

const Pointer kTelemetry("/runs/2/devices/1/gpu_telemetry");

json sample_document() { return json(to_json(test::sample_report())); }

TEST(GpuReport, SaysThatADeviceIsNoGpu) {
  Report report = test::sample_report();
  report.runs[0].devices[0].gpu_telemetry = Known<GpuTelemetry>::missing("the device is no GPU");
  const json device = json(to_json(report))["runs"][0]["devices"][0];
  EXPECT_TRUE(device["gpu_telemetry"].is_null());
  EXPECT_EQ(device["gpu_telemetry_reason"], "the device is no GPU");
}

TEST(GpuReport, WritesFiguresAndReasons) {
  const json telemetry = sample_document()[kTelemetry];
  EXPECT_EQ(telemetry["sm_clock_mhz"]["median"], 1755);
  EXPECT_EQ(telemetry["clock_event_ratios"]["gpu_idle"], 0.05);
  EXPECT_TRUE(telemetry["temperature_celsius"].is_null());
  EXPECT_EQ(telemetry["temperature_celsius_reason"], "Not Supported");
  const json gpu = sample_document()["environment"]["gpus"][0];
  EXPECT_EQ(gpu["compute_capability"], "9.0");
}

TEST(GpuReport, ReadsReportsOfPeersWithoutTheseKeys) {
  json document = sample_document();
  json& gpu = document["environment"]["gpus"][0];
  gpu = {{"name", gpu["name"]}, {"driver", gpu["driver"]}, {"memory_bytes", gpu["memory_bytes"]}};
  for (json& run : document["runs"]) {
    for (json& device : run["devices"]) {
      device.erase("gpu_telemetry");
      device.erase("gpu_telemetry_reason");
    }
  }
  EXPECT_THAT(ddpbench::test::schema_errors(document, DDPBENCH_REPORT_SCHEMA), ElementsAre());
  const Report report = parse_report(document.dump(), "peer.json");
  EXPECT_EQ(report.environment.gpus[0].uuid, "");
  EXPECT_EQ(report.environment.gpus[0].numa_node.value, std::nullopt);
  EXPECT_EQ(report.runs[2].devices[1].gpu_telemetry.value.has_value(), false);
  // When written again, the report says that they are missing.
  EXPECT_THAT(ddpbench::test::schema_errors(json(to_json(report)), DDPBENCH_REPORT_SCHEMA),
              ElementsAre());
}

TEST(GpuReport, SchemaAndReaderRefuseWhatCannotBe) {
  const ddpbench::test::SchemaValidator schema(DDPBENCH_REPORT_SCHEMA);
  const std::vector<std::pair<Pointer, json>> cases = {
      {kTelemetry / "samples", 0},
      {kTelemetry / "power_w" / "median", -1},
      {kTelemetry / "clock_event_ratios" / "gpu_idle", "often"},
      {kTelemetry / "temperature_celsius_reason", ""},
      {Pointer("/environment/gpus/0/pcie_width"), -16}};
  for (const auto& [pointer, value] : cases) {
    json document = sample_document();
    document[pointer] = value;
    EXPECT_FALSE(schema.errors(document).empty()) << pointer;
    if (value.is_string() && value.get<std::string>().empty())
      continue;  // the reader takes any reason
    EXPECT_THROW(parse_report(document.dump(), "bad.json"), ConfigError) << pointer;
  }
}

TEST(GpuFigures, AreMediansOverTheGpusOfARunWithTheRangeOfAll) {
  auto run = test::sample_run("ddp", 3, 100);
  EXPECT_EQ(gpu_figure(run, &GpuTelemetry::power_w).reason, "no GPU was sampled");
  const SampleRange ranges[] = {{500, 90, 610}, {300, 80, 650}, {450, 95, 600}};
  for (std::size_t i = 0; i < 3; ++i) {
    GpuTelemetry telemetry;
    telemetry.power_w = Known<SampleRange>::of(ranges[i]);
    telemetry.sm_clock_mhz = Known<SampleRange>::missing("Not Supported");
    run.devices[i].gpu_telemetry = Known<GpuTelemetry>::of(telemetry);
  }
  const SampleRange power = gpu_figure(run, &GpuTelemetry::power_w).value.value();
  EXPECT_EQ(power.median, 450);
  EXPECT_EQ(power.min, 80);
  EXPECT_EQ(power.max, 650);
  EXPECT_EQ(gpu_figure(run, &GpuTelemetry::sm_clock_mhz).reason, "Not Supported");
}

TEST(GpuFigures, AreColumnsOfTheFullTableOnlyWhereGpusWere) {
  Report report = test::sample_report();
  const auto names = [&] {
    std::vector<std::string> found;
    for (const Column* column : usual_columns(all_runs(report))) found.push_back(column->name);
    return found;
  };
  EXPECT_THAT(names(), IsSupersetOf({"gpu-use", "power", "clock"}));
  const RunRow ddp = all_runs(report)[2];
  EXPECT_EQ(find_column("gpu-use")->cell(ddp), "97.0");
  EXPECT_EQ(find_column("power")->cell(ddp), "690");
  EXPECT_EQ(find_column("gpu_sm_clock_mhz")->cell(ddp), "1755");
  report.runs[2].devices[1].gpu_telemetry = {};
  EXPECT_THAT(names(), Not(AnyOf(Contains("gpu-use"), Contains("power"), Contains("clock"))));
}

TEST(GpuFigures, AreBarsOfTheBusyChart) {
  Report report = test::sample_report();
  report.runs = {report.runs[2], report.runs[1]};  // the second one's GPUs were not sampled
  for (auto& run : report.runs) {
    for (DeviceRow& device : run.devices) {
      device.step_time_median_s = Figure::of(0.02);
      device.phases = {{"forward_s", Figure::of(0.002)}, {"backward_s", Figure::of(0.003)}};
    }
  }
  const StackedChart chart = busy_chart({&report, 1});
  EXPECT_THAT(chart.parts, ElementsAre("forward", "backward", "update", "by the driver's samples"));
  std::map<std::string, double> wholes;
  for (const StackedBar& bar : chart.bars) {
    EXPECT_EQ(bar.parts.size(), chart.parts.size()) << bar.label;
    if (!bar.label.starts_with("rank")) {
      EXPECT_EQ(bar.parts.back(), bar.whole);
    }
    if (bar.name.starts_with("ddp")) wholes[bar.label] = bar.whole;
  }
  EXPECT_EQ(wholes, (std::map<std::string, double>{{"rank 0", 0.25},
                                                   {"rank 1", 0.25},
                                                   {"GPU use", 0.97},
                                                   {"power, of 700 W", 690.5 / 700},
                                                   {"clock, of 1980 MHz", 1755. / 1980}}));
  EXPECT_EQ(chart.bars.size(), 5U + 2U);
}

std::vector<std::string> texts_of(const std::vector<Warning>& warnings) {
  std::vector<std::string> texts;
  for (const Warning& warning : warnings) texts.push_back(warning.text);
  return texts;
}

Run run_with(const std::vector<std::map<std::string, double>>& ratios) {
  Run run = test::sample_run("ddp", static_cast<int>(ratios.size()), 100);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    GpuTelemetry telemetry;
    telemetry.samples = 100;
    telemetry.clock_event_ratios = Known<std::map<std::string, double>>::of(ratios[i]);
    run.devices[i].device = "cuda:" + std::to_string(i);
    run.devices[i].gpu_telemetry = Known<GpuTelemetry>::of(std::move(telemetry));
  }
  return run;
}

TEST(GpuWarnings, NameReasonAndShareOverAllRuns) {
  Report report;
  report.runs = {run_with({{{"sw_power_cap", 0.1}}, {{"sw_power_cap", 0.4}}}),
                 run_with({{{"sw_power_cap", 0.2}}, {{"sw_thermal_slowdown", 1}}}),
                 run_with({{{"gpu_idle", 0.9}}, {{"application_clocks_setting", 1}}})};
  EXPECT_THAT(texts_of(condition_warnings(report)),
              ElementsAre("a power limit held a GPU's clocks down up to 40 % of the time (2 of 3 "
                          "runs)",
                          "heat (the driver's limit) held a GPU's clocks down 100 % of the time (1 "
                          "of 3 runs)"));
  EXPECT_THAT(row_warnings(all_runs(report)).front().line(), StartsWith("[a] a power limit held"));
}

TEST(GpuWarnings, SayNothingOfRareOrUnknownReasons) {
  Report report;
  report.runs = {run_with({{{"sw_power_cap", 0.049}}, {{"other", 1}}}),
                 test::sample_run("ddp", 2, 100)};
  EXPECT_THAT(texts_of(condition_warnings(report)), ElementsAre());
}

}  // namespace
}  // namespace ddpbench::report
