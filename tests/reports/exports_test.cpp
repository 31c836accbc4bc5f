// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The export for github-action-benchmark.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "reports/exports/run_formats.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(UnixMs, ReadsTheTimesOfReportsOnly) {
  EXPECT_EQ(unix_ms("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(unix_ms("2026-01-31T12:00:00Z"), 1769860800000);
  for (const char* text : {"", "soon", "2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z",
                           "2026-01-31T12:00:00", "2026-01-31T12:00:00Zzz"}) {
    EXPECT_FALSE(unix_ms(text)) << text;
  }
}

std::map<std::string, Json> entries(const std::vector<RunRow>& rows, Trait direction) {
  std::map<std::string, Json> by_name;
  for (const Json& entry : Json::parse(github_benchmark_text(rows, direction))) {
    EXPECT_TRUE(entry.at("name").is_string() && entry.at("unit").is_string());
    EXPECT_TRUE(entry.at("value").is_number());
    EXPECT_TRUE(by_name.emplace(entry.at("name"), entry).second) << "twice: " << entry.at("name");
  }
  return by_name;
}

constexpr const char* kDpName =
    "dp 2 x Imaginary 9000, simple_cnn on mnist, batch 64/128 weak, fp32, threads 1, shm";

TEST(GithubBenchmark, HasWhatIsBetterWhenSmaller) {
  const Report report = test::sample_report();
  const auto found = entries(all_runs(report), kSmaller);
  const Json& step = found.at(std::string(kDpName) + ": step_time_median_s");
  EXPECT_EQ(step["unit"], "s");
  EXPECT_EQ(step["value"], 0.02);
  EXPECT_EQ(step["range"], "± 0.0005");
  EXPECT_EQ(step["extra"], "repetitions: 1\nsteps: 3\nddpbench 0.1.0");
  EXPECT_EQ(found.at(std::string(kDpName) + ": others_peak_bytes")["unit"], "bytes");
  EXPECT_FALSE(found.contains(std::string(kDpName) + ": samples_per_s"));
}

TEST(GithubBenchmark, HasWhatIsBetterWhenBiggerInAFileOfItsOwn) {
  const Report report = test::sample_report();
  const auto found = entries(all_runs(report), kBigger);
  EXPECT_EQ(found.at(std::string(kDpName) + ": samples_per_s")["value"], 5200);
  EXPECT_EQ(found.at(std::string(kDpName) + ": samples_per_s")["unit"], "samples/s");
  EXPECT_EQ(found.at(std::string(kDpName) + ": efficiency")["value"], 0.8125);
  EXPECT_FALSE(found.contains(std::string(kDpName) + ": step_time_median_s"));
}

TEST(GithubBenchmark, LeavesOutTheEfficiencyOfADisturbedRun) {
  Report report = test::sample_report();
  report.runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  const auto found = entries(all_runs(report), kBigger);
  EXPECT_TRUE(found.contains(std::string(kDpName) + ": samples_per_s"));
  EXPECT_FALSE(found.contains(std::string(kDpName) + ": efficiency"));
}

// A repetition that is faster than devices can be makes the setting's median no more doubtful.
TEST(GithubBenchmark, HasTheEfficiencyOfRepetitionsOfWhichOneIsFarOff) {
  Report report;
  for (const double rate : {100, 100, 100})
    report.runs.push_back(test::sample_run("single", 1, rate));
  for (const double rate : {190, 195, 215}) report.runs.push_back(test::sample_run("dp", 2, rate));
  for (int i = 0; i < 6; ++i) report.runs[i].repetition = i % 3;
  fill_scaling(report);
  EXPECT_EQ(entries(all_runs(report), kBigger).at(std::string(kDpName) + ": efficiency")["value"],
            0.975);
}

TEST(GithubBenchmark, LeavesOutWhatFailedAndWhatWasInjected) {
  const Report report = test::sample_report();  // its ddp runs: one injected, one failed
  for (const auto& [name, entry] : entries(all_runs(report), kSmaller)) {
    EXPECT_FALSE(name.starts_with("ddp ")) << name;
  }
}

TEST(GithubBenchmark, TakesTheMedianOverRepetitions) {
  Report report;
  for (int i = 0; i < 3; ++i) {
    report.runs.push_back(test::sample_run("dp", 2, 1000 + 100 * i));
    report.runs.back().repetition = i;
  }
  const auto found = entries(all_runs(report), kBigger);
  const Json& rate = found.at(std::string(kDpName) + ": samples_per_s");
  EXPECT_EQ(rate["value"], 1100);
  EXPECT_EQ(rate["range"], "± 50");
  EXPECT_THAT(rate["extra"], HasSubstr("repetitions: 3\n"));
}

TEST(GithubBenchmark, KeepsModelsOfDevicesApart) {
  Report report;
  report.runs = {test::sample_run("dp", 2, 1000), test::sample_run("dp", 2, 2000)};
  report.runs[1].device_model = "Other 1";
  EXPECT_EQ(entries(all_runs(report), kBigger).size(), 2u);
}

}  // namespace
}  // namespace ddpbench::report
