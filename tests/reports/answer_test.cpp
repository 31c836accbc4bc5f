// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The first answer names a winner only where noise does not explain it.
#include "reports/why/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/json/report_json.h"
#include "reports/metrics/scaling.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using test::Normal;
using test::report_of;
using test::sample_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Setting {
  const char* strategy;
  int devices;
  double samples_per_s;
};

Report report_with(const std::vector<Setting>& settings) {
  std::vector<Run> runs;
  for (const Setting& setting : settings) {
    runs.push_back(sample_run(setting.strategy, setting.devices, setting.samples_per_s));
  }
  Report report = report_of(std::move(runs));
  fill_scaling(report);
  return report;
}

const std::vector<Setting> kQuick = {
    {"single", 1, 7081}, {"dp", 1, 7137}, {"ddp", 1, 7474}, {"ddp", 2, 10632}, {"dp", 2, 10374}};

std::vector<std::string> lines_of(const std::vector<Setting>& settings) {
  const Report report = report_with(settings);
  return answer_lines(all_runs(report));
}

TEST(Answer, SaysWhichHowSureAndWhyNot) {
  const Report report = report_with(kQuick);
  const std::vector<std::string> lines = answer_lines(all_runs(report));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0],
            "ddp or dp on 2 devices: 1.50 times the samples/s of one device (10632 and 10374 "
            "against 7081, global batch 128 instead of 64).");
  EXPECT_EQ(lines[1],
            "How sure: 2 devices beat 1. ddp or dp on 2 devices: cannot tell; 2.5 % apart, and "
            "equal work differs by 5.6 % here (=).");
  EXPECT_THAT(lines[2], StartsWith("Why not 2: "));
}

TEST(Answer, IsNoneWhereOtherProgramsDisturbedWhatIsCompared) {
  for (const std::size_t disturbed : {0U, 3U}) {
    Report report = report_with(kQuick);
    report.runs[disturbed].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
    const std::vector<std::string> lines = answer_lines(all_runs(report));
    EXPECT_EQ(lines[0],
              "No answer: other programs used 71 % of the CPU; equal work on one device took "
              "8.6 to 9.0 ms.");
    EXPECT_EQ(lines[1], "How sure: not. Differences below 5.6 % say nothing here.");
  }
  Report report = report_with(kQuick);
  report.runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  EXPECT_THAT(answer_lines(all_runs(report))[0],
              StartsWith("ddp or dp"));  // the baseline is single
}

TEST(Answer, SaysWhenOneDeviceMayBeAsFast) {
  const auto lines = lines_of({{"single", 1, 100}, {"ddp", 2, 76}});
  EXPECT_THAT(lines[1], HasSubstr("a single device may be as fast"));
  const auto slower = lines_of({{"single", 1, 100}, {"ddp", 2, 30}});
  EXPECT_EQ(slower[0],
            "single on 1 device: ddp on 2 devices only 0.30 times its samples/s (30.0 against 100, "
            "global batch 128 instead of 64).");
  EXPECT_THAT(slower[1], HasSubstr("one device is faster"));
}

TEST(Answer, CallsMoreThanSoManyTimesADisturbedBaseline) {
  EXPECT_THAT(lines_of({{"single", 1, 100}, {"ddp", 2, 260}})[0],
              StartsWith("No answer: the baseline was disturbed: 2 devices are 2.6 times as fast"));
}

TEST(Answer, TakesNoOtherSettingsForEqualWork) {
  Report report = report_with(kQuick);
  report.runs[2].strategy_options["cuda_graph"] = "on";
  report.runs[0].strategy_options["cuda_graph"] = "off";
  report.runs[1].strategy_options["cuda_graph"] = "off";
  EXPECT_THAT(answer_lines(all_runs(report))[1], HasSubstr("equal work differs by 0.8 %"));
}

// A run with the usual number of loader workers does not name it.
TEST(Answer, TakesNoOtherNumberOfLoaderWorkersForEqualWork) {
  Report report = report_with(kQuick);
  report.runs[2].strategy_options["loader_workers"] = "4";
  EXPECT_THAT(answer_lines(all_runs(report))[1], HasSubstr("equal work differs by 0.8 %"));
}

TEST(Answer, ComparesOnlyEqualWork) {
  Report report = report_with(kQuick);
  const std::size_t count = report.runs.size();
  for (std::size_t i = 0; i < count; ++i) {
    report::Run larger = report.runs[i];
    larger.per_device_batch_size *= 2;
    larger.global_batch_size *= 2;
    larger.samples_per_s = Figure::of(2 * *larger.samples_per_s.value);
    report.runs.push_back(larger);
  }
  const std::vector<std::string> lines = answer_lines(all_runs(report));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], AllOf(StartsWith("batch 64 a device: ddp or dp on 2 devices: 1.50 times"),
                              HasSubstr("against 7081")));
  EXPECT_THAT(lines[1], AllOf(StartsWith("batch 128 a device: "), HasSubstr("against 14162")));
}

TEST(Answer, ComparesSettingsOnSeveralDevicesAlone) {
  const auto lines = lines_of({{"dp", 2, 5000}, {"ddp", 2, 5600}});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "ddp or dp on 2 devices: 5600 and 5000 samples/s.");
  EXPECT_EQ(lines[1], "How sure: ddp or dp on 2 devices: cannot tell; 12 % apart.");
}

TEST(Answer, SaysHowFarTheWinnerIsAheadOfTheNext) {
  std::vector<report::Run> runs;
  for (int i = 0; i < 5; ++i) {
    for (const Setting& setting : {Setting{"single", 1, 7000}, {"dp", 2, 10000}, {"ddp", 2, 11000}})
      runs.push_back(
          sample_run(setting.strategy, setting.devices, setting.samples_per_s * (1 + 0.005 * i)));
    for (std::size_t back = 1; back <= 3; ++back) runs[runs.size() - back].repetition = i;
  }
  Report report = report_of(std::move(runs));
  fill_scaling(report);
  const auto lines = answer_lines(all_runs(report));
  EXPECT_THAT(lines[0], HasSubstr("instead of 64), 10 % ahead of dp on 2 devices (8.8 to 11)."));
}

TEST(Answer, IsWrittenReadAndValid) {
  Report report = report_with(kQuick);
  report.answer = answer_lines(all_runs(report));
  const auto document = to_json(report);
  EXPECT_THAT(ddpbench::test::schema_errors(nlohmann::json(document), DDPBENCH_REPORT_SCHEMA),
              testing::IsEmpty());
  EXPECT_EQ(parse_report(document.dump(), "memory").answer, report.answer);
}

TEST(Answer, NeedsTwoSettings) {
  EXPECT_TRUE(lines_of({{"single", 1, 100}}).empty());
  EXPECT_TRUE(lines_of({{"ddp", 2, 100}}).empty());
}

struct Noise {
  double deviation = 0;  // of a repetition
  double drift = 0;      // from the first round to the last, in deviations
  double bursts = 0;     // share of the repetitions that other work slows by a quarter
};

// A comparison in rounds, in which ddp on 2 devices is `lead` ahead of dp.
Report drawn(Normal& normal, int repetitions, double lead, const Noise& noise) {
  std::vector<Run> runs;
  for (int round = 0; round < repetitions; ++round) {
    for (const Setting& setting : kQuick) {
      const bool leads = setting.devices == 2 && setting.strategy == std::string("ddp");
      const double even = setting.devices == 1 ? 7000 : 10000 * (leads ? 1 + lead : 1);
      double logarithm = noise.deviation * normal();
      if (repetitions > 1) logarithm += noise.drift * noise.deviation * round / (repetitions - 1);
      if (normal.uniform() < noise.bursts) logarithm -= 0.25;
      runs.push_back(sample_run(setting.strategy, setting.devices, even * std::exp(logarithm)));
      runs.back().repetition = round;
    }
  }
  return report_of(std::move(runs));
}

bool names_a_winner(const Report& report) {
  const std::string head = answer_lines(all_runs(report))[0];
  const std::string named = head.substr(0, head.find(':'));
  return named != "No answer" && named.find(" or ") == std::string::npos;
}

int winners(int repetitions, double lead, const Noise& noise, int pairs, Normal& normal) {
  int named = 0;
  for (int i = 0; i < pairs; ++i)
    named += names_a_winner(drawn(normal, repetitions, lead, noise)) ? 1 : 0;
  return named;
}

TEST(Answer, NamesAWinnerOfEqualProgramsInOneOfAHundredCasesAtMost) {
  constexpr int kPairs = 20;
  Normal normal(7);
  for (const int repetitions : {1, 2, 3, 5, 7}) {
    int named = 0, pairs = 0;
    for (const double deviation : {0.01, 0.03, 0.06, 0.1, 0.15}) {
      for (const Noise& noise :
           {Noise{deviation, 0, 0}, Noise{deviation, 2, 0}, Noise{deviation, 0, 0.1}}) {
        named += winners(repetitions, 0, noise, kPairs, normal);
        pairs += kPairs;
      }
    }
    EXPECT_LE(named, pairs / 100) << repetitions << " repetitions";
  }
}

TEST(Answer, FindsATrueTenthAtThreePercentNoise) {
  Normal normal(7);
  EXPECT_GE(winners(5, 0.1, {.deviation = 0.03}, 300, normal), 288);
}

}  // namespace
}  // namespace ddpbench::report
