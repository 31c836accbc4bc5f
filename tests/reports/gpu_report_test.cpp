// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs in reports: written, read, checked against the schema, and in warnings.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/json/report_json.h"
#include "reports/metrics/conditions.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;
using testing::ElementsAre;
using testing::HasSubstr;

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

TEST(GpuWarnings, NameReasonDeviceAndShareOverAllRuns) {
  Report report;
  report.runs = {run_with({{{"sw_power_cap", 0.1}}, {{"sw_power_cap", 0.4}}}),
                 run_with({{{"sw_power_cap", 0.2}}, {{"sw_thermal_slowdown", 1}}}),
                 run_with({{{"gpu_idle", 0.9}}, {{"application_clocks_setting", 1}}})};
  EXPECT_THAT(texts_of(gpu_warnings(report)),
              ElementsAre("in 2 of 3 runs a GPU's clocks were held down by its power limit, at "
                          "worst on cuda:1 in 40 % of the samples",
                          "in 1 of 3 runs a GPU's clocks were held down by heat (the driver's "
                          "limit), at worst on cuda:1 in 100 % of the samples"));
  EXPECT_THAT(warning_lines(all_runs(report), 0),
              HasSubstr("warning [a]: in 2 of 3 runs a GPU's clocks"));
}

TEST(GpuWarnings, SayNothingOfRareOrUnknownReasons) {
  Report report;
  report.runs = {run_with({{{"sw_power_cap", 0.049}}, {{"other", 1}}}),
                 test::sample_run("ddp", 2, 100)};
  EXPECT_THAT(texts_of(gpu_warnings(report)), ElementsAre());
}

}  // namespace
}  // namespace ddpbench::report
