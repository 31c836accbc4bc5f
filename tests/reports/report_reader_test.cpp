// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/json/report_json.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::refusal;
using test::refusal_with;

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_without(const char* pointer) {
  ordered_json document = to_json(test::sample_report());
  const ordered_json::json_pointer place(pointer);
  document.at(place.parent_pointer()).erase(place.back());
  return refusal(document.dump());
}

TEST(ReportReader, GivesBackExactlyWhatWasWritten) {
  const ordered_json written = to_json(test::sample_report());
  EXPECT_EQ(to_json(parse_report(written.dump(), "some.json")).dump(2), written.dump(2));
}

TEST(ReportReader, KeepsTheTimeToAnAccuracy) {
  Report report = test::sample_report();
  report.runs[1].until_accuracy = AccuracyTarget{0.971, Figure::of(12.5)};
  report.runs[2].until_accuracy =
      AccuracyTarget{0.98, Figure::missing("98 % was not reached in 1 epoch: 97.10 %")};
  const report::Report read = parse_report(to_json(report).dump(), "some.json");
  EXPECT_FALSE(read.runs[0].until_accuracy);
  EXPECT_EQ(read.runs[1].until_accuracy->target, 0.971);
  EXPECT_EQ(read.runs[1].until_accuracy->train_s.value, 12.5);
  EXPECT_EQ(read.runs[2].until_accuracy->train_s.reason,
            "98 % was not reached in 1 epoch: 97.10 %");
  EXPECT_EQ(read.runs[4].until_accuracy->train_s.reason, "the run failed");
}

TEST(ReportReader, KeepsTheCourseOfTrainingOrWhyItIsNotThere) {
  Report report = test::sample_report();
  report.runs[1].progress_reason = "observing is off";
  report.runs[1].diverged_step = Known<std::int64_t>::of(7);
  report.runs[2].diverged_step = Known<std::int64_t>::missing("the loss of every step is finite");
  report.runs[2].diverged_tensor = "fc.bias";
  report.runs[2].progress[0].train_accuracy = std::numeric_limits<double>::quiet_NaN();
  const ordered_json written = to_json(report);
  EXPECT_TRUE(written["runs"][1]["progress"].is_null());
  EXPECT_EQ(written["runs"][1]["diverged_step"], 7);
  EXPECT_FALSE(written["runs"][0].contains("progress"));
  EXPECT_FALSE(written["runs"][0].contains("diverged_step"));
  EXPECT_EQ(written["runs"][2]["diverged_tensor"], "fc.bias");
  EXPECT_FALSE(written["runs"][0].contains("diverged_tensor"));
  const Report read = parse_report(written.dump(), "some.json");
  EXPECT_EQ(read.runs[1].progress_reason, "observing is off");
  EXPECT_EQ(read.runs[2].progress.at(1).samples, 25600);
  EXPECT_EQ(read.runs[2].diverged_tensor, "fc.bias");
  EXPECT_EQ(to_json(read).dump(2), written.dump(2));
}

TEST(ReportReader, KeepsADivergedLossMissing) {
  Report report = test::sample_report();
  report.runs[1].epochs[0].train_loss = std::numeric_limits<double>::infinity();
  const ordered_json written = to_json(report);
  EXPECT_EQ(to_json(parse_report(written.dump(), "some.json")).dump(2), written.dump(2));
}

// bench/peers/pytorch_report.py writes such reports.
TEST(ReportReader, KeepsThePeersNameAndUnknownMemory) {
  Report report = test::sample_report();
  report.generator.name = "ddpbench-pytorch-peer";
  report.runs[2].devices[0].peak_reason = "not told by PyTorch";
  const ordered_json written = to_json(report);
  const ordered_json& memory = written["runs"][2]["devices"][0]["memory"];
  EXPECT_TRUE(memory["peak_bytes"].is_null());
  EXPECT_EQ(memory["peak_bytes_reason"], "not told by PyTorch");
  EXPECT_EQ(to_json(parse_report(written.dump(), "some.json")).dump(2), written.dump(2));
}

TEST(ReportReader, RestoresFiguresReasonsAndOptions) {
  const Report report = parse_report(to_json(test::sample_report()).dump(), "some.json");
  ASSERT_EQ(report.runs.size(), 6u);
  EXPECT_EQ(*report.runs[2].samples_per_s.value, 6100.5);
  EXPECT_EQ(report.runs[1].phases.at("gather_s").reason, "observing is off");
  EXPECT_EQ(report.runs[2].strategy_options.at("overlap"), "on");
  EXPECT_EQ(report.runs[2].strategy_options.at("bucket_cap_mb"), "25");
  EXPECT_EQ(report.runs[4].error->signal, 9);
  EXPECT_EQ(report.runs[5].status, Status::skipped);
  EXPECT_EQ(report.environment.cpu.l3_bytes, 0u);
}

TEST(ReportReader, ReadsErrorsWithAndWithoutABucket) {
  Report report = test::sample_report();
  report.runs[4].error->bucket = 3;
  ordered_json document = to_json(report);
  EXPECT_EQ(parse_report(document.dump(), "some.json").runs[4].error->bucket, 3);
  EXPECT_EQ(document["error"]["bucket"], nullptr);
  document["runs"][4]["error"].erase("bucket");  // as peers write it
  EXPECT_EQ(parse_report(document.dump(), "some.json").runs[4].error->bucket, std::nullopt);
}

TEST(ReportReader, IgnoresKeysThatItDoesNotKnow) {
  ordered_json document = to_json(test::sample_report());
  document["added"] = {{"later", 1}};
  document["runs"][0]["added"] = "later";
  EXPECT_EQ(refusal(document.dump()), test::kNothingThrown);
}

TEST(ReportReader, ReadsFiles) {
  const fs::path path = fs::path(::testing::TempDir()) / "ddpbench_report_reader_test.json";
  fs::remove(path);
  write_report(test::sample_report(), path, false);
  EXPECT_EQ(to_json(read_report(path)), to_json(test::sample_report()));
  fs::remove(path);
}

TEST(ReportReader, NamesFilesThatItCannotRead) {
  const auto message = [](const std::string& path) {
    try {
      read_report(path);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string(test::kNothingThrown);
  };
  EXPECT_EQ(message("/nonexistent/report.json"), "report /nonexistent/report.json: no such file");
  EXPECT_EQ(message(::testing::TempDir()),
            "report " + ::testing::TempDir() + ": not a regular file");
  EXPECT_EQ(message("/dev/zero"), "report /dev/zero: not a regular file");
}

TEST(ReportReader, RefusesEveryTruncationOfAReport) {
  const std::string text = to_json(test::sample_report()).dump();
  for (std::size_t length = 1; length < text.size(); length += 97) {
    EXPECT_THAT(refusal(text.substr(0, length)),
                AllOf(HasSubstr("report some.json: not valid JSON"), HasSubstr("column")))
        << length;
  }
}

TEST(ReportReader, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_THAT(refusal(R"({"schema_version": 1e999})"), HasSubstr("not valid JSON"));
}

TEST(ReportReader, RefusesBytesThatAreNoUtf8) {
  EXPECT_THAT(refusal("{\"schema_version\": \"\xff\"}"), HasSubstr("not valid JSON"));
}

TEST(ReportReader, RefusesDeepNestingWithoutFollowingIt) {
  const std::string deep(1000000, '[');
  EXPECT_THAT(refusal(deep), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(refusal(R"({"config":)" + deep), HasSubstr("nested deeper than 64 levels"));
}

TEST(ReportReader, RefusesOtherSchemaVersionsBeforeAnythingElse) {
  EXPECT_THAT(refusal(R"({"schema_version": 2})"),
              AllOf(HasSubstr("some.json"), HasSubstr("/schema_version"),
                    HasSubstr("schema version 2 is not known"), HasSubstr("newer ddpbench")));
  EXPECT_THAT(refusal(R"({"schema_version": 0})"), HasSubstr("no ddpbench report"));
  EXPECT_THAT(refusal(R"({"schema_version": "1"})"), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal("{}"),
              HasSubstr("\"schema_version\" is missing: this is no report of ddpbench"));
  EXPECT_THAT(refusal(" \n"), HasSubstr("it is empty"));
  EXPECT_THAT(refusal("[]"), HasSubstr("(the whole document): expected an object, found array"));
}

TEST(ReportReader, NamesThePointerOfAWrongType) {
  EXPECT_EQ(refusal_with("/runs/2/world_size", "two"),
            "report some.json: /runs/2/world_size: expected an integer, found string");
  EXPECT_EQ(refusal_with("/runs/2/world_size", 1.5),
            "report some.json: /runs/2/world_size: expected an integer, found number");
  EXPECT_EQ(refusal_with("/runs/1/step/samples_s/2", nullptr),
            "report some.json: /runs/1/step/samples_s/2: expected a number, found null");
  EXPECT_EQ(refusal_with("/runs", 7), "report some.json: /runs: expected an array, found number");
  EXPECT_EQ(refusal_with("/config", "{}"),
            "report some.json: /config: expected an object, found string");
  EXPECT_EQ(refusal_with("/runs/0/oversubscribed", 1),
            "report some.json: /runs/0/oversubscribed: expected true or false, found number");
}

TEST(ReportReader, NamesThePointerOfAnIntegerOutOfRange) {
  EXPECT_EQ(refusal_with("/runs/2/world_size", 1LL << 40),
            "report some.json: /runs/2/world_size: 1099511627776 is out of range, 1 to 100000");
  EXPECT_EQ(refusal_with("/runs/1/devices/0/memory/peak_bytes", -1),
            "report some.json: /runs/1/devices/0/memory/peak_bytes: -1 is out of range, 0 to "
            "9007199254740992");
  EXPECT_THAT(refusal_with("/runs/2/parameters", 1ULL << 63), HasSubstr("is out of range"));
}

TEST(ReportReader, NamesThePointerOfAnUnknownWord) {
  EXPECT_EQ(refusal_with("/runs/2/status", "done"),
            "report some.json: /runs/2/status: \"done\" is none of: ok, diverged, "
            "failed, skipped, interrupted");
  EXPECT_THAT(refusal_with("/runs/2/verification/status", "maybe"), HasSubstr("is none of"));
  EXPECT_THAT(refusal_with("/status", "skipped"), HasSubstr("only runs can be skipped"));
  EXPECT_THAT(refusal_with("/status", "diverged"), HasSubstr("only runs can"));
}

TEST(ReportReader, NamesMissingKeysAndTheirObject) {
  EXPECT_EQ(refusal_without("/runs/3/epochs"),
            "report some.json: /runs/3: the key \"epochs\" is missing");
  EXPECT_EQ(refusal_without("/runs/1/phases/gather_s_reason"),
            "report some.json: /runs/1/phases: the key \"gather_s_reason\" is missing");
  EXPECT_EQ(refusal_without("/runs/4/error"),
            "report some.json: /runs/4: the key \"error\" is missing");
  EXPECT_EQ(refusal_without("/runs/5/reason"),
            "report some.json: /runs/5: the key \"reason\" is missing");
  EXPECT_THAT(refusal_with("/error", nullptr), HasSubstr("/error: expected an object"));
}

}  // namespace
}  // namespace ddpbench::report
