// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step times of other programs: what is read, what is refused, and the runs that they become.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/imports/imports.h"
#include "reports/json/report_json.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StepTimes csv(const std::string& text) { return parse_step_times(text, "t.csv"); }
StepTimes lines(const std::string& text) { return parse_step_times(text, "t.jsonl"); }

template <typename Act>
std::string refusal_of(Act act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Two repetitions of two ranks; rank 1 is the slower one.
const std::string kTwoRanks =
    "repetition,rank,step,seconds,phase,memory,loss\n"
    "0,0,10,0.010,,1000,0.5\n0,0,11,0.020,,3000,0.4\n0,0,11,0.004,comm,,\n"
    "0,1,10,0.012,,2000,0.7\n0,1,11,0.019,,,0.6\n0,1,11,0.006,comm,,\n0,1,12,9,,,0.1\n"
    "1,0,0,0.030,,,\n1,1,0,0.040,,,\n";

TEST(StepTimes, AreReadFromCsvByTheNamesOfItsColumns) {
  const StepTimes times =
      csv("seconds, step ,rank,lr\r\n0.5,3,1,0.1\r\n\r\n\"0.25\",4,1,\"a,b\"\r\n");
  ASSERT_EQ(times.rows.size(), 2u);
  EXPECT_EQ(times.rows[0].step, StepNumber(0, 3));
  EXPECT_EQ(times.rows[0].rank, 1);
  EXPECT_EQ(times.rows[0].start.second, 0);
  EXPECT_EQ(times.rows[1].seconds, 0.25);
  EXPECT_EQ(times.rows[1].line, 4u);
  EXPECT_THAT(times.not_read, ElementsAre("lr"));
}

TEST(StepTimes, AreReadBehindTheByteOrderMarkOfASpreadsheet) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(csv(mark + "step,seconds\n3,0.5\n").rows.front().step.second, 3);
  const std::string object = mark + R"({"step": 4, "seconds": 0.5})" + "\n";
  EXPECT_EQ(lines(object).rows.front().step.second, 4);
}

TEST(StepTimes, AreReadFromJsonLines) {
  const StepTimes times = lines(
      "{\"step\": 0, \"seconds\": 0.5, \"loss\": 2.25, \"lr\": 1}\n\n"
      "{\"step\": 1, \"seconds\": 5e-1, \"phase\": \"forward\", \"memory\": null}");
  ASSERT_EQ(times.rows.size(), 2u);
  EXPECT_EQ(times.rows[0].loss, 2.25);
  EXPECT_EQ(times.rows[1].phase, "forward");
  EXPECT_FALSE(times.rows[1].memory_bytes);
  EXPECT_THAT(times.not_read, ElementsAre("lr"));
}

// df.to_csv() writes its index without a name, and whole numbers of a column with gaps as reals.
TEST(StepTimes, AreReadAsPandasWritesThem) {
  const StepTimes times = csv(",rank,step,seconds,loss\n0,0.0,3.0,0.5,\n7,1.0,4.0,0.25,NaN\n");
  EXPECT_EQ(times.rows.at(1).rank, 1);
  EXPECT_EQ(times.rows[1].step.second, 4);
  EXPECT_TRUE(std::isnan(times.rows[1].loss.value()));
  EXPECT_FALSE(times.rows[0].loss);
  EXPECT_THAT(times.not_read, IsEmpty());
  EXPECT_EQ(csv(",seconds\n0,0.5\n1,0.25\n").rows.at(1).step.second, 1) << "the index numbers";
  EXPECT_EQ(csv("Unnamed: 0,seconds\n5,0.5\n").rows.at(0).step.second, 5);
}

TEST(StepTimes, AreReadAsSpreadsheetsWriteThem) {
  for (const char separator : {';', '\t'}) {
    std::string text = "Step;Time (ms);Phase;Loss\r\n1;12,5;;0,75\r\n2;1e3;comm;\r\n";
    std::ranges::replace(text, ';', separator);
    const StepTimes times = csv(text);
    EXPECT_DOUBLE_EQ(times.rows.at(0).seconds, 0.0125);
    EXPECT_EQ(times.rows[0].loss, 0.75);
    EXPECT_DOUBLE_EQ(times.rows.at(1).seconds, 1);
    EXPECT_EQ(times.rows[1].phase, "comm");
    EXPECT_THAT(times.not_read, IsEmpty());
  }
  EXPECT_EQ(csv("STEP,ms,seconds\n1,7,2\n").rows.at(0).seconds, 2) << "its own name comes first";
  EXPECT_THAT(csv("step,seconds,\"a;b\"\n1,7,2\n").not_read, ElementsAre("a;b"));
}

// json.dumps() of Python writes words that JSON does not have.
TEST(StepTimes, AreReadAsPythonWritesJson) {
  const StepTimes times =
      lines(R"({"step": 0, "ms": 5, "loss": NaN, "memory": NaN, "phase": NaN, "note": "\"NaN"})"
            "\n"
            R"({"step": 1, "ms": 5, "loss": -Infinity})"
            "\n");
  EXPECT_TRUE(std::isnan(times.rows.at(0).loss.value()));
  EXPECT_FALSE(times.rows[0].memory_bytes);
  EXPECT_EQ(times.rows[0].phase, "");
  EXPECT_DOUBLE_EQ(times.rows[0].seconds, 0.005);
  EXPECT_TRUE(std::isinf(times.rows.at(1).loss.value()));
  const StepTimes array =
      lines("[\n {\"step\": 0, \"seconds\": 1},\n {\"step\": 1, \"seconds\": 2}]");
  EXPECT_EQ(array.rows.at(1).seconds, 2);
  EXPECT_EQ(lines("[0.5, 0.25]").rows.at(1).seconds, 0.25);
  EXPECT_EQ(lines("[0.5, 0.25]").rows.at(1).step.second, 1);
  EXPECT_THAT(refusal_of([] { lines("[{\"step\": 0, \"seconds\": 1}, {\"step\": 1}]"); }),
              HasSubstr("t.jsonl: seconds is missing"));
  EXPECT_THAT(refusal_of([] { lines("[{\"step\": 0, \"seconds\": 1}, 2, [3]]"); }),
              HasSubstr("t.jsonl: expected an object"));
}

// Steps that begin again in each epoch are other steps.
TEST(StepTimes, AreToldApartByTheirEpochs) {
  const auto runs =
      imported_runs(csv("epoch,step,seconds,loss\n1,0,9,8\n1,1,2,2\n2,0,3,1\n2,1,5,0.5\n"),
                    {.strategy = "mine", .batch_size = 4, .warmup_steps = 1}, "t.csv");
  EXPECT_THAT(runs.at(0).step.samples_s, ElementsAre(2, 3, 5));
}

std::vector<report::Run> runs_of(const std::string& text, const std::string& strategy = "") {
  return imported_runs(lines(text), {.strategy = strategy}, "t.json");
}

TEST(BenchmarkFiles, OfHyperfineHaveARepetitionForEachTime) {
  const auto runs = runs_of(R"({
  "results": [
    {"command": "a b", "mean": 0.2, "times": [0.1, 0.3], "exit_codes": [0, 0]},
    {"command": "c\n::d", "times": [2]}
  ]
})");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].strategy, "a b");
  EXPECT_EQ(runs[1].repetition, 1);
  EXPECT_THAT(runs[1].step.samples_s, ElementsAre(0.3));
  EXPECT_EQ(runs[2].strategy, "c ::d");
  EXPECT_EQ(runs_of(R"({"results": [{"command": "a", "times": [1]}]})", "ddp")[0].strategy, "ddp");
  EXPECT_THAT(refusal_of([] { runs_of(R"({"results": [{"command": "a"}]})"); }),
              AllOf(HasSubstr("t.jsonl: no file of hyperfine"), HasSubstr("'times' not found")));
}

TEST(BenchmarkFiles, OfGoogleBenchmarkHaveARepetitionForEachOfIts) {
  const auto runs = runs_of(R"({"context": {"num_cpus": 2}, "benchmarks": [
    {"name": "BM_a/8", "run_type": "iteration", "repetition_index": 0, "iterations": 10,
     "real_time": 1.5e6, "cpu_time": 1, "time_unit": "ns"},
    {"name": "BM_a/8", "run_type": "iteration", "real_time": 2.5e3, "time_unit": "us"},
    {"name": "BM_a/8_mean", "aggregate_name": "mean", "real_time": 2e6, "time_unit": "ns"},
    {"name": "BM_b", "error_occurred": true, "error_message": "no", "real_time": 0},
    {"name": "BM_c", "real_time": 3, "time_unit": "s"}]})");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].strategy, "BM_a/8");
  EXPECT_DOUBLE_EQ(runs[0].step.time_s->median, 0.0015);
  EXPECT_EQ(runs[1].repetition, 1);
  EXPECT_DOUBLE_EQ(runs[1].step.time_s->median, 0.0025);
  EXPECT_EQ(runs[2].step.time_s->median, 3);
}

TEST(BenchmarkFiles, OfPytestBenchmarkHaveAStepForEachRound) {
  const auto runs = runs_of(R"({"machine_info": {}, "benchmarks": [
    {"name": "test_a", "fullname": "f.py::test_a", "stats": {"min": 1, "data": [1, 2, 4]}}]})");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].strategy, "test_a");
  EXPECT_THAT(runs[0].step.samples_s, ElementsAre(1, 2, 4));
  EXPECT_THAT(
      refusal_of([] { runs_of(R"({"benchmarks": [{"name": "test_a", "stats": {"min": 1}}]})"); }),
      HasSubstr("'data' not found"));
}

TEST(StepTimes, AreRefusedWithLineAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"step,seconds\n", "no steps"},
      {"step\n1\n", "line 2: seconds is missing"},
      {"iteration,seconds\n1,1\n", "line 2: step is missing"},
      {"step seconds\n1 1\n", "step is missing (columns are separated by commas, ; or tabs)"},
      {"step,seconds\n1,\n", "line 2: seconds is missing"},
      {"step,seconds\n1,abc\n", "line 2: seconds: expected a number"},
      {"step,seconds\n1,-1\n", "expected a number from 0 to 1e+18, got \"-1\""},
      {"step,seconds\n1,0\n", "cannot take no time"},
      {"step,seconds\n1,inf\n", "expected a number from 0 to"},
      {"step,seconds\n1,nan\n", "expected a number"},
      {"step,seconds,memory\n1,1,nan\n", "memory: expected a number"},
      {"step,seconds,loss\n1,1,none\n", "loss: expected a number"},
      {"step,seconds\n1.5,1\n", "step: expected a whole number"},
      {"step,seconds\n-1,1\n", "step: expected a whole number"},
      {"step,seconds,rank\n1,1,100000\n", "rank: expected a whole number from 0 to 99999"},
      {"step,seconds\n1\n", "line 2: 1 cell below 2 columns"},
      {"step;seconds\n1;1.234,5\n", "seconds: expected a number"},
      {"step,seconds\n1e30,1\n", "step: expected a whole number"},
      {"step,seconds\n1,NaN\n", "line 2: seconds is missing"},
      {"step,seconds,step\n1,1,1\n", "two columns are called \"step\""},
      {"step,seconds\n\"1,1\n", "quoted cell"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(refusal_of([&] { csv(text); }), HasSubstr(message)) << text;
  }
  EXPECT_THAT(refusal_of([] { lines("{\"step\": 1, \"seconds\": 1}\n[1]"); }),
              HasSubstr("line 2: expected an object"));
  EXPECT_THAT(refusal_of([] { lines("{\"step\": 1, \"seconds\": 1}\n{\"step\": "); }),
              HasSubstr("t.jsonl: line 2"));
}

TEST(ImportedRuns, TakeTheSlowestRankOfEveryCommonStep) {
  const std::vector<report::Run> runs =
      imported_runs(csv(kTwoRanks), {.strategy = "ddp", .host = "node", .batch_size = 32}, "t.csv");
  ASSERT_EQ(runs.size(), 2u);
  const report::Run& run = runs[0];
  EXPECT_EQ(run.world_size, 2);
  EXPECT_THAT(run.step.samples_s, ElementsAre(0.012, 0.020));
  EXPECT_DOUBLE_EQ(run.step.time_s->median, 0.016);
  EXPECT_DOUBLE_EQ(*run.samples_per_s.value, 64 / 0.016);
  EXPECT_EQ(run.global_batch_size, 64);
  EXPECT_DOUBLE_EQ(*run.phases.at("comm_s").value, 0.006);
  EXPECT_EQ(run.devices[0].peak_bytes, 3000u);
  EXPECT_EQ(run.devices[1].peak_bytes, 2000u);
  EXPECT_DOUBLE_EQ(run.epochs.at(0).train_loss, (0.5 + 0.4 + 0.7 + 0.6 + 0.1) / 5);
  EXPECT_EQ(runs[1].repetition, 1);
  EXPECT_THAT(runs[1].step.samples_s, ElementsAre(0.040));
  EXPECT_THAT(runs[1].epochs, IsEmpty());
  EXPECT_FALSE(runs[1].devices[0].peak_reason.empty());
}

TEST(ImportedRuns, DivergeWhereTheLossDoes) {
  for (const char* loss : {"nan", "NaN", "inf", "-inf"}) {
    const auto runs = imported_runs(csv(fmt::format("step,seconds,loss\n0,1,2.5\n1,1,{}\n", loss)),
                                    {.strategy = "mine"}, "t.csv");
    EXPECT_EQ(runs.at(0).status, report::Status::diverged) << loss;
    ASSERT_TRUE(runs[0].error.has_value()) << loss;
    EXPECT_EQ(runs[0].error->kind, "diverged");
  }
}

TEST(ImportedRuns, LeaveTheWarmUpOut) {
  const std::vector<report::Run> runs = imported_runs(
      csv("step,seconds\n5,9\n6,8\n7,1\n8,2\n"), {.strategy = "mine", .warmup_steps = 2}, "t.csv");
  EXPECT_THAT(runs.at(0).step.samples_s, ElementsAre(1, 2));
  EXPECT_EQ(runs[0].step.warmup, 2);
  EXPECT_THAT(refusal_of([] {
                imported_runs(csv("step,seconds\n5,9\n"), {.strategy = "mine", .warmup_steps = 1},
                              "t.csv");
              }),
              HasSubstr("smaller --warmup-steps"));
}

TEST(ImportedRuns, SayNothingThatTheFileDoesNotTell) {
  const std::vector<report::Run> runs =
      imported_runs(csv("step,seconds\n1,1\n2,1\n"), {.strategy = "mine"}, "t.csv");
  EXPECT_FALSE(runs.at(0).samples_per_s.value);
  EXPECT_THAT(runs[0].samples_per_s.reason, HasSubstr("--batch-size"));
  EXPECT_EQ(runs[0].verification.status, "off");
}

TEST(ImportedRuns, RefuseWhatCannotBeARun) {
  const auto refusal = [](const std::string& rows) {
    return refusal_of([&] {
      imported_runs(csv("rank,step,seconds,phase\n" + rows), {.strategy = "mine"}, "t.csv");
    });
  };
  EXPECT_THAT(refusal("0,1,1,\n0,1,2,\n"),
              HasSubstr("line 3: step 1 of rank 0 in repetition 0 comes twice"));
  EXPECT_THAT(refusal("1,1,1,\n"), HasSubstr("rank 0 of repetition 0 has no whole steps"));
  EXPECT_THAT(refusal("0,1,1,\n1,1,1,comm\n"), HasSubstr("rank 1 of repetition 0 has no whole"));
  EXPECT_THAT(refusal("0,1,1,\n1,2,1,\n"), HasSubstr("no step in common"));
}

TEST(ImportedRuns, MakeAReportOfTheSchema) {
  Report report = test::report_of(
      imported_runs(csv(kTwoRanks), {.strategy = "my trainer", .host = "node"}, "t.csv"));
  report.generator.name = "ddpbench-import";
  const auto written = to_json(report);
  EXPECT_THAT(
      ddpbench::test::schema_errors(nlohmann::json::parse(written.dump()), DDPBENCH_REPORT_SCHEMA),
      IsEmpty());
  const Report read = parse_report(written.dump(), "r.json");
  EXPECT_EQ(to_json(read).dump(), written.dump());
  EXPECT_TRUE(std::isnan(read.runs[0].epochs.at(0).train_accuracy));
}

}  // namespace
}  // namespace ddpbench::report
