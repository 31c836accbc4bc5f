// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Exports for other programs: github-action-benchmark, Prometheus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "reports/exports/run_formats.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(UnixMs, ReadsTheTimesOfReportsOnly) {
  EXPECT_EQ(unix_ms("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(unix_ms("2026-01-31T12:00:00Z"), 1769860800000);
  for (const char* text : {"", "soon", "2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z",
                           "2026-01-31T12:00:00", "2026-01-31T12:00:00Zzz"}) {
    EXPECT_FALSE(unix_ms(text)) << text;
  }
}

// ---- github-action-benchmark ----

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

// ---- Prometheus ----

struct Sample {
  std::string metric, labels;
  double value = 0;
};

// Accepts only the part of the text format that a textfile collector accepts: HELP and TYPE once
// and before the samples of their metric, samples together, label values escaped.
class PrometheusParser {
 public:
  explicit PrometheusParser(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    for (const std::string& line : lines_of(text)) read(line);
  }
  std::vector<Sample> samples;
  const Sample* find(const std::string& metric, const std::string& labels) const {
    for (const Sample& sample : samples) {
      if (sample.metric == metric && sample.labels.find(labels) != std::string::npos)
        return &sample;
    }
    return nullptr;
  }

 private:
  void read(const std::string& line) {
    static const std::regex help("# HELP ([a-z_:][a-z0-9_:]*) (([^\\\\]|\\\\[\\\\n])+)");
    static const std::regex type("# TYPE ([a-z_:][a-z0-9_:]*) gauge");
    static const std::regex sample(
        "([a-z_:][a-z0-9_:]*)\\{((?:[a-z_][a-z0-9_]*=\"(?:[^\"\\\\]|\\\\[\\\\\"n])*\",?)+)\\} "
        "(\\S+)");
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(helped_.insert(match[1]).second) << line;
      current_ = match[1];
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], current_) << line;
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(match[1], current_) << "apart from its metric: " << line;
      EXPECT_TRUE(series_.insert(match[1].str() + '{' + match[2].str()).second) << line;
      EXPECT_FALSE(match[2].str().ends_with(',')) << line;
      std::size_t end = 0;
      samples.push_back({match[1], match[2], std::stod(match[3], &end)});
      EXPECT_EQ(end, match[3].str().size()) << line;
    } else {
      ADD_FAILURE() << "not understood: " << line;
    }
  }
  std::set<std::string> helped_, series_;
  std::string current_;
};

TEST(Prometheus, UsesBaseUnitsAndLabels) {
  const Report report = test::sample_report();
  const PrometheusParser parsed(prometheus_text(all_runs(report)));
  const Sample* step =
      parsed.find("ddpbench_step_time_median_seconds", "strategy=\"dp\",world_size=\"2\"");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->value, 0.02);
  EXPECT_THAT(step->labels, HasSubstr("device_model=\"Imaginary 9000\""));
  EXPECT_NE(parsed.find("ddpbench_samples_per_second", "strategy=\"ddp\""), nullptr);
  EXPECT_EQ(parsed.find("ddpbench_primary_peak_bytes", "strategy=\"dp\"")->value, 41943040);
  EXPECT_EQ(parsed.find("ddpbench_run_ok", "world_size=\"8\"")->value, 0);
  EXPECT_EQ(parsed.find("ddpbench_report_finished_timestamp_seconds", "")->value, 1769860860);
}

TEST(Prometheus, HasNoSampleForAMissingFigure) {
  const Report report = test::sample_report();
  const PrometheusParser parsed(prometheus_text(all_runs(report)));
  EXPECT_THAT(prometheus_text(all_runs(report)), Not(HasSubstr("=\"\"")));
  EXPECT_EQ(parsed.find("ddpbench_comm_seconds", "strategy=\"single\""), nullptr);
  EXPECT_EQ(parsed.find("ddpbench_speedup_ratio", "strategy=\"ps\""), nullptr);
}

TEST(Prometheus, GivesEachSeriesOneSampleHoweverOftenAReportIsNamed) {
  const std::vector<ReportFile> files = {{"a.json", test::sample_report()},
                                         {"a.json", test::sample_report()}};
  const PrometheusParser parsed(prometheus_text(all_runs(files)));
  EXPECT_NE(parsed.find("ddpbench_run_ok", "copy=\"2\""), nullptr);
  EXPECT_NE(parsed.find("ddpbench_run_ok", "report=\"a.json\""), nullptr);
}

TEST(Prometheus, EscapesLabels) {
  Report report = test::sample_report();
  report.runs[0].model = "a\"b\\c\nd";
  const PrometheusParser parsed(prometheus_text(all_runs(report)));
  EXPECT_NE(parsed.find("ddpbench_run_ok", R"(model="a\"b\\c\nd")"), nullptr);
}

}  // namespace
}  // namespace ddpbench::report
