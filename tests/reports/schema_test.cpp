// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The schema accepts the reports that the program writes, and refuses every mutation of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using ddpbench::test::schema_errors;
using ddpbench::test::SchemaValidator;
using nlohmann::json;
using Pointer = json::json_pointer;

json document_of(const Report& report) { return json(to_json(report)); }

std::string joined(const std::vector<std::string>& errors) {
  std::string text;
  for (const auto& error : errors) text += error + "\n";
  return text;
}

// Calls visit(pointer) for each value below `value`.
template <typename Visit>
void for_each_value(const json& value, const Pointer& pointer, const Visit& visit) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      visit(pointer / key);
      for_each_value(child, pointer / key, visit);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      visit(pointer / i);
      for_each_value(value[i], pointer / i, visit);
    }
  }
}

bool contains(const Pointer& pointer, const char* part) {
  return pointer.to_string().find(part) != std::string::npos;
}

// Parts whose keys come from the user, the machine or the strategy, and not from the schema.
bool has_free_keys(const Pointer& pointer) {
  for (const char* part :
       {"/config/", "/libraries/", "/variables/", "/strategy_options/", "/by_category_bytes/",
        "/optimizer/momentum", "/optimizer/weight_decay", "/phases/scatter_s"}) {
    if (contains(pointer, part)) return true;
  }
  return false;
}

// Keys that may be left out.
bool is_newer(const Pointer& pointer) {
  const bool why = pointer.back() == "why" || contains(pointer, "/why/parts/");
  const bool gpu = contains(pointer, "/gpus/0/") || contains(pointer, "/clock_event_ratios/") ||
                   pointer.back() == "gpu_telemetry" || pointer.back() == "driver_bytes" ||
                   contains(pointer, "/driver_bytes/");
  const bool network = pointer.back() == "model_hash" || pointer.back() == "until_accuracy" ||
                       pointer.back() == "progress" || pointer.back() == "diverged_step" ||
                       pointer.back() == "evaluation" || pointer.back().ends_with("miou") ||
                       pointer.back() == "metric" || pointer.back() == "flops_per_sample";
  const bool data =
      contains(pointer, "/dataset/") && (pointer.back() == "note" || pointer.back() == "augment");
  const bool traffic = pointer.back() == "traffic" || pointer.back() == "checkpoints" ||
                       pointer.back() == "resumed" || pointer.back() == "loss_scaling";
  const bool peak = pointer.back() == "peak_flops_per_s_per_device";
  const bool hosts = pointer.back() == "clocks" || pointer.back() == "calls" ||
                     pointer.back() == "tcp_congestion_control";
  const bool failed_call = contains(pointer, "/error/bucket");
  return why || gpu || network || data || traffic || peak || hosts || failed_call ||
         (contains(pointer, "/devices/") && contains(pointer, "/phases"));
}

// One run of each outcome is enough for mutations and faster than all runs.
json mutation_subject() {
  Report report = test::sample_report();
  report.runs = {report.runs[1], report.runs[2], report.runs[4], report.runs[5]};
  report.runs[0].until_accuracy = AccuracyTarget{0.98, Figure::of(10), "miou"};
  report.runs[0].epochs[0].test_miou = 0.5;
  return document_of(report);
}

TEST(ReportSchema, AcceptsWhatAServerDidForItsWorkersOneByOne) {
  Report report = test::sample_report();
  report.runs[2].pushes = PushSection{.updates = 5,
                                      .updates_per_s = 2.5,
                                      .dropped = 1,
                                      .staleness_p50 = 1,
                                      .staleness_p95 = 3,
                                      .staleness_max = 3,
                                      .pushes_by_staleness = {{"0", 1}, {"1", 3}, {"3", 1}}};
  json document = document_of(report);
  EXPECT_EQ(joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA)), "");
  EXPECT_EQ(document_of(parse_report(document.dump(), "again")), document);
  document["runs"][2]["pushes"].erase("staleness_p95");
  EXPECT_NE(joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA)), "");
}

TEST(ReportSchema, AcceptsAReportWithRunsOfEveryKind) {
  EXPECT_EQ(joined(schema_errors(document_of(test::sample_report()), DDPBENCH_REPORT_SCHEMA)), "");
}

TEST(ReportSchema, AcceptsAReportWithoutRunsFromAMachineThatTellsNothing) {
  Report report;
  report.generator.version = "0.1.0";
  report.started_at = report.finished_at = "2026-01-31T12:00:00.250Z";
  report.argv = {"ddpbench"};
  report.environment.hosts = {"node"};
  EXPECT_EQ(joined(schema_errors(document_of(report), DDPBENCH_REPORT_SCHEMA)), "");
}

TEST(ReportSchema, AcceptsAReportThatDoesNotTellWhenItWasMeasured) {
  Report report = test::sample_report();
  report.started_at = report.finished_at = "";
  const auto document = document_of(report);
  EXPECT_EQ(joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA)), "");
  EXPECT_TRUE(document.at("started_at").is_null());
  EXPECT_EQ(document.at("finished_at_reason"), "the time of the measurement is unknown");
  EXPECT_EQ(parse_report(document.dump(), "memory").started_at, "");
}

TEST(ReportSchema, AcceptsInterruptedRunsAndDivergedTraining) {
  Report report = test::sample_report();
  report.status = Status::interrupted;
  report.runs[1].status = Status::interrupted;
  report.runs[1].scaling.reset();
  report.runs[2].epochs[0].train_loss = std::numeric_limits<double>::quiet_NaN();
  report.runs[2].status = Status::diverged;
  report.runs[2].error.emplace();
  report.runs[2].error->kind = "diverged";
  report.runs[2].error->message = "training diverged in step 2";
  report.runs[2].verification.status = "diverged";
  report.runs[2].verification.reason = "training diverged in step 2";
  report.runs[2].verification.worst_step = 1;
  report.runs[2].diverged_step = Known<std::int64_t>::of(2);
  report.runs[2].diverged_tensor = "fc.bias";
  report.runs[2].progress[1].train_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(joined(schema_errors(document_of(report), DDPBENCH_REPORT_SCHEMA)), "");
  report.runs[2].verification.worst_step = 0;
  EXPECT_NE(joined(schema_errors(document_of(report), DDPBENCH_REPORT_SCHEMA)), "");
}

TEST(ReportSchema, AcceptsThePeersReports) {
  Report report = test::sample_report();
  report.generator.name = "ddpbench-pytorch-peer";
  report.runs[1].precision = "tf32";
  report.runs[1].devices[0].peak_reason = "not told by PyTorch";
  json document = document_of(report);
  EXPECT_EQ(joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA)), "");
  document["runs"][1]["devices"][0]["memory"].erase("peak_bytes_reason");
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
}

TEST(ReportSchema, AcceptsAddedKeys) {
  json document = document_of(test::sample_report());
  document["added"] = 1;
  document["runs"][0]["added"] = "later";
  document["runs"][0]["phases"]["all_to_all_s"] = 0.5;
  EXPECT_EQ(joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA)), "");
}

TEST(ReportSchema, RejectsTheLossOfAnyRequiredKey) {
  const SchemaValidator schema(DDPBENCH_REPORT_SCHEMA);
  json document = mutation_subject();
  const json original = document;
  int removed = 0;
  for_each_value(original, Pointer(), [&](const Pointer& pointer) {
    const Pointer parent = pointer.parent_pointer();
    if (!original.at(parent).is_object() || has_free_keys(pointer) || is_newer(pointer)) {
      return;
    }
    document.at(parent).erase(pointer.back());
    EXPECT_FALSE(schema.errors(document).empty()) << "without " << pointer;
    document.at(parent)[pointer.back()] = original.at(pointer);
    ++removed;
  });
  EXPECT_GT(removed, 300);
  EXPECT_EQ(joined(schema.errors(document)), "");  // everything was put back
}

json of_another_type(const json& value) {
  if (value.is_structured()) return 1;
  if (value.is_string()) return 1;
  if (value.is_null()) return json::array();
  return "1";  // numbers and booleans
}

TEST(ReportSchema, RejectsAnyValueOfAnotherType) {
  const SchemaValidator schema(DDPBENCH_REPORT_SCHEMA);
  json document = mutation_subject();
  const json original = document;
  for_each_value(original, Pointer(), [&](const Pointer& pointer) {
    if (contains(pointer, "/config/") || contains(pointer, "/strategy_options/")) return;
    document.at(pointer) = of_another_type(original.at(pointer));
    EXPECT_FALSE(schema.errors(document).empty()) << "another type for " << pointer;
    document.at(pointer) = original.at(pointer);
  });
  EXPECT_EQ(joined(schema.errors(document)), "");
}

TEST(ReportSchema, RejectsNullWithoutAReasonAndAReasonBesideAFigure) {
  json document = document_of(test::sample_report());
  // The text that a NaN becomes.
  document["runs"][1]["throughput"]["samples_per_s"] =
      json::parse(json(std::numeric_limits<double>::quiet_NaN()).dump());
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
  document = document_of(test::sample_report());
  document["runs"][1]["throughput"]["samples_per_s_reason"] = "because";
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
}

struct Forbidden {
  const char* pointer;
  json value;
};

TEST(ReportSchema, RejectsValuesOutsideTheirRange) {
  const SchemaValidator schema(DDPBENCH_REPORT_SCHEMA);
  const json original = document_of(test::sample_report());
  const std::vector<Forbidden> cases = {
      {"/schema_version", 2},
      {"/status", "skipped"},
      {"/started_at", "yesterday"},
      {"/generator/name", "another"},
      {"/runs/1/status", "done"},
      {"/runs/1/strategy", "fsdp"},
      {"/runs/1/device", "auto"},
      {"/runs/1/precision", "fp31"},
      {"/runs/1/scaling_mode", "both"},
      {"/runs/1/world_size", 0},
      {"/runs/1/world_size", 1.5},
      {"/runs/1/parameters", 0},
      {"/runs/1/parameters", -1},
      {"/runs/1/dataset/source", "guessed"},
      {"/runs/1/time/train_s", -1},
      {"/runs/1/step/samples_s/0", -0.1},
      {"/runs/1/step/count", -1},
      {"/runs/1/epochs/0/train_accuracy", 93},
      {"/runs/1/epochs/0/test_accuracy", 1.01},
      {"/runs/1/phases/comm_s", -1},
      {"/runs/1/phases/overlap_ratio", 1.1},
      {"/runs/1/phases/speed", 1},
      {"/runs/1/devices/0/role", "master"},
      {"/runs/1/devices/0/memory/peak_bytes", -1},
      {"/runs/1/devices/0/memory/peak_bytes", 0.5},
      {"/runs/1/verification/status", "maybe"},
      {"/runs/1/verification/tolerance", 0},
      {"/runs/1/verification/status", "failed"},  // without a reason
      {"/runs/1/scaling/baseline", "dp"},
      {"/runs/1/scaling/speedup", 0},
      {"/runs/1/throughput/samples_per_s", 0},
      {"/runs/1/oversubscribed", true},  // has scaling
      {"/runs/1/injected", ""},
  };
  for (const Forbidden& forbidden : cases) {
    json document = original;
    document[Pointer(forbidden.pointer)] = forbidden.value;
    EXPECT_FALSE(schema.errors(document).empty()) << forbidden.pointer << " " << forbidden.value;
  }
}

TEST(ReportSchema, RejectsFailuresWithoutAnErrorAndSkippedRunsWithoutAReason) {
  const json original = document_of(test::sample_report());
  json document = original;
  document["error"] = nullptr;
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
  document = original;
  document["runs"][4].erase("error");
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
  document = original;
  document["runs"][5].erase("reason");
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
}

TEST(SchemaValidator, NamesThePlaceOfAnError) {
  json document = document_of(test::sample_report());
  document["runs"][1]["world_size"] = "two";
  const std::string errors = joined(schema_errors(document, DDPBENCH_REPORT_SCHEMA));
  EXPECT_NE(errors.find("[runs][1][world_size]"), std::string::npos) << errors;
}

TEST(SchemaValidator, RefusesAFileThatIsNotThere) {
  EXPECT_THROW(schema_errors(json::object(), "/nonexistent/schema.json"), std::runtime_error);
}

TEST(Schemas, HaveAnIdentityByTheirNames) {
  const std::filesystem::path root =
      std::filesystem::path(DDPBENCH_REPORT_SCHEMA).parent_path().parent_path().parent_path();
  for (const char* folder : {"reports/schema", "configs/schema"}) {
    for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
      std::ifstream file(entry.path());
      EXPECT_EQ(json::parse(file).value("$id", ""),
                "https://ddpbench.invalid/schema/" + entry.path().filename().string());
    }
  }
}

// docs/claims.md draws it.
TEST(PublishedCurve, IsAValidReportOfSpeedUpsAlone) {
  const std::filesystem::path root =
      std::filesystem::path(DDPBENCH_REPORT_SCHEMA).parent_path().parent_path().parent_path();
  const std::string path = (root / "docs/deeplab-v100.json").string();
  std::ifstream file(path);
  EXPECT_EQ(joined(schema_errors(json::parse(file), DDPBENCH_REPORT_SCHEMA)), "");
  const Report report = read_report(path);
  const std::vector<std::pair<int, double>> wanted = {{1, 1}, {4, 3}, {8, 3.9}};
  ASSERT_EQ(report.runs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto [devices, speedup] = wanted[i];
    EXPECT_EQ(report.runs[i].world_size, devices);
    EXPECT_DOUBLE_EQ(report.runs[i].scaling.value().speedup, speedup);
    EXPECT_DOUBLE_EQ(report.runs[i].scaling->efficiency, speedup / devices);
    EXPECT_NEAR(*report.runs[i].samples_per_s.value, speedup, 1e-12);
    EXPECT_NEAR(report.runs[i].step.time_s.value().median, devices / speedup, 1e-12);
  }
}

}  // namespace
}  // namespace ddpbench::report
