// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The first answer names a winner only where noise does not explain it.
#include "reports/why/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using testing::Contains;
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
  EXPECT_EQ(
      lines[1],
      "How sure: 2 devices beat 1. ddp or dp: cannot tell; 2.5 % apart, and noise is 5.6 % here "
      "(=).");
  EXPECT_THAT(lines[2], StartsWith("Why not 2: "));
}

TEST(Answer, IsNoneWhereOtherProgramsDisturbedWhatIsCompared) {
  for (const std::size_t disturbed : {0U, 3U}) {
    Report report = report_with(kQuick);
    report.runs[disturbed].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
    const std::vector<std::string> lines = answer_lines(all_runs(report));
    EXPECT_EQ(lines[0],
              "No answer: other programs used 71 % of the CPU; equal work on one device took "
              "8.56 to 9.04 ms.");
    EXPECT_EQ(lines[1], "How sure: not; even equal work differs by 5.6 % here.");
    EXPECT_EQ(
        lines[2],
        "Next: run it on an idle machine; where the load comes and goes, with --repetitions=7 "
        "(about 7 min).");
  }
  Report report = report_with(kQuick);
  report.runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  EXPECT_THAT(answer_lines(all_runs(report))[0],
              StartsWith("ddp or dp"));  // the baseline is single
}

TEST(Answer, SaysWhenOneDeviceMayBeAsFast) {
  const auto lines = lines_of({{"single", 1, 100}, {"ddp", 2, 76}});
  EXPECT_THAT(lines[1], HasSubstr("a single device may be as fast"));
  const auto slower = lines_of({{"single", 1, 100}, {"dp", 1, 100}, {"ddp", 2, 30}});
  EXPECT_EQ(slower[0],
            "single on 1 device: ddp on 2 devices only 0.30 times its samples/s (30.0 against 100, "
            "global batch 128 instead of 64).");
  EXPECT_THAT(slower[1], HasSubstr("one device is faster"));
}

TEST(Answer, RanksOnlyTwiceAsFastOnOneRepetitionWithoutAYardstick) {
  const auto lines = lines_of({{"single", 1, 100}, {"ddp", 2, 146}, {"dp", 2, 79}});
  EXPECT_THAT(lines[0], StartsWith("ddp or dp on 2 devices: 0.79 to 1.46 times the samples/s"));
  EXPECT_THAT(lines[1], HasSubstr("may be as fast. ddp or dp: cannot tell; 85 % apart in one run"));
  EXPECT_THAT(lines_of({{"single", 1, 100}, {"ddp", 2, 190}, {"dp", 2, 60}})[0],
              StartsWith("ddp on 2 devices: 1.90 times"));
  EXPECT_THAT(lines_of({{"single", 1, 100}, {"ddp", 2, 11}})[1], HasSubstr("one device is faster"));
}

TEST(Answer, SaysWhyNoneIsGivenWhereAllShareCores) {
  Report report = report_with({{"single", 1, 100}, {"ddp", 2, 76}});
  report.runs[1].oversubscribed = true;
  report.environment.cpu.cores = 1;
  EXPECT_THAT(answer_lines(all_runs(report)),
              testing::ElementsAre("No answer: 2 threads of 2 devices share 1 core.",
                                   "How sure: not.", StartsWith("Next: ")));
  for (report::Run& run : report.runs) run.threads_per_device = 2;
  EXPECT_EQ(answer_lines(all_runs(report))[0], "No answer: 4 threads of 2 devices share 1 core.");
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
  EXPECT_THAT(answer_lines(all_runs(report))[1], HasSubstr("noise is 0.8 %"));
}

// A run with the usual number of loader workers does not name it.
TEST(Answer, TakesNoOtherNumberOfLoaderWorkersForEqualWork) {
  Report report = report_with(kQuick);
  report.runs[2].strategy_options["loader_workers"] = "4";
  EXPECT_THAT(answer_lines(all_runs(report))[1], HasSubstr("noise is 0.8 %"));
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
  EXPECT_EQ(lines[1], "How sure: ddp or dp: cannot tell; 12 % apart in one run each.");
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
  EXPECT_THAT(lines[0], HasSubstr("of one device (1.55 to 1.59; "));
}

// With its range, since the middle alone looks like an answer.
TEST(Answer, SaysBetweenWhatASpeedUpIsThatMayBeNone) {
  std::vector<report::Run> runs;
  for (int i = 0; i < 3; ++i) {
    runs.push_back(sample_run("single", 1, 7000 + 1000 * i));
    runs.push_back(sample_run("ddp", 2, 8000 - 1000 * i));
    for (std::size_t back = 1; back <= 2; ++back) runs[runs.size() - back].repetition = i;
  }
  Report report = report_of(std::move(runs));
  fill_scaling(report);
  const auto lines = answer_lines(all_runs(report));
  EXPECT_THAT(lines[0], HasSubstr("of one device (0.64 to 1.19; "));
  EXPECT_EQ(lines[1], "How sure: a single device may be as fast (0.64 to 1.19).");
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

// ---- what to choose ----

Run& approximate(Run& run, double divergence) {
  run.verification.status = "not_applicable";
  run.verification.reason = report::Verification::kByDesign;
  run.verification.divergence = divergence;
  return run;
}

void set_memory(Run& run, double mebibytes) {
  for (DeviceRow& device : run.devices)
    device.peak_bytes = static_cast<std::uint64_t>(mebibytes * 1048576);
}

std::vector<std::string> lines_of(const Report& report,
                                  std::optional<std::uint64_t> device_bytes = {}) {
  return answer_lines(all_runs(report), device_bytes);
}

constexpr std::uint64_t kMiB = 1048576;

// ddp, and zero2 which takes less memory, at these rates; with what dp takes.
Report with_memory(double ddp, double zero2, double zero2_mib) {
  Report report =
      report_with({{"single", 1, 7000}, {"ddp", 2, ddp}, {"zero2", 2, zero2}, {"dp", 1, 7000}});
  set_memory(report.runs[1], 420);
  set_memory(report.runs[2], zero2_mib);
  report.runs[2].devices[0].peak_bytes = 10 * kMiB;  // the fattest device counts
  return report;
}

TEST(AnswerChoice, NamesTheLeastMemoryNearTheFastest) {
  const auto lines = lines_of(with_memory(10000, 9600, 310));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], StartsWith("ddp or zero2 on 2 devices: "));
  EXPECT_EQ(lines[3],
            "Least memory within 5 % of the fastest: zero2 on 2 devices, 310 MiB a device instead "
            "of 420 MiB.");
}

TEST(AnswerChoice, SaysNothingOfMemoryThatIsNotClearlyLessOrOfSlowRuns) {
  EXPECT_EQ(lines_of(with_memory(10000, 9600, 400)).size(), 3U);  // 4.8 % less
  EXPECT_EQ(lines_of(with_memory(10000, 9500, 310)).size(), 3U);  // 5.3 % longer steps
  EXPECT_EQ(lines_of(with_memory(9600, 10000, 310)).size(), 3U);  // the fastest itself
  Report unknown = with_memory(10000, 9600, 310);
  unknown.runs[1].devices[1].peak_reason = "not told";
  EXPECT_EQ(lines_of(unknown).size(), 3U);
}

// Equal work on one device differs by 8 %: so much slower is as fast.
TEST(AnswerChoice, TakesWhatNoiseExplainsForAsFast) {
  Report report =
      report_with({{"single", 1, 7000}, {"dp", 1, 7560}, {"ddp", 2, 10000}, {"zero2", 2, 9300}});
  set_memory(report.runs[2], 420);
  set_memory(report.runs[3], 310);
  EXPECT_THAT(lines_of(report), Contains(StartsWith("Least memory within 8 % of the fastest: ")));
}

TEST(AnswerChoice, CountsTheMemoryOfServers) {
  Report report = with_memory(10000, 9600, 310);
  report.runs[2].servers = 1;
  report.runs[2].devices.push_back(report.runs[2].devices[1]);
  report.runs[2].devices.back().role = "server";
  report.runs[2].devices.back().peak_bytes = 415 * kMiB;
  EXPECT_EQ(lines_of(report).size(), 3U);
}

TEST(AnswerChoice, NamesTheFastestThatFits) {
  const Report report = with_memory(13500, 8000, 310);
  EXPECT_EQ(lines_of(report, 400 * kMiB).back(),
            "Fastest that fits 400 MiB: zero2 on 2 devices, 310 MiB a device.");
  EXPECT_EQ(lines_of(report, 512 * kMiB).back(),
            "Fastest that fits 512 MiB: ddp on 2 devices, 420 MiB a device.");
  EXPECT_EQ(lines_of(report, 300 * kMiB).back(),
            "No exact run fits 300 MiB (the least takes 310 MiB: zero2 on 2 devices).");
  EXPECT_THAT(lines_of(report, 8192 * kMiB).back(), StartsWith("Fastest that fits 8 GiB: ddp on"));
  EXPECT_EQ(lines_of(report).size(), 3U);
}

// What disturbs a run changes no memory.
TEST(AnswerChoice, SaysWhatFitsOfDisturbedRuns) {
  Report report = with_memory(13500, 8000, 310);
  for (auto& run : report.runs) run.conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  EXPECT_EQ(lines_of(report, 400 * kMiB).back(),
            "What fits 400 MiB: zero2 on 2 devices, which were disturbed.");
}

// Adam keeps a tensor more than SGD: that is no strategy's saving.
TEST(AnswerChoice, ComparesMemoryAndLossOfOneOptimizerAlone) {
  Report report = with_memory(10000, 9600, 310);
  report.runs[2].optimizer_name = "adam";
  EXPECT_EQ(lines_of(report).size(), 3U);
}

TEST(AnswerChoice, NamesNoneOfTwoThatFitEquallyFast) {
  const auto lines = lines_of(with_memory(10000, 9600, 310), 512 * kMiB);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[3],
            "Fastest that fits 512 MiB: ddp or zero2 on 2 devices, up to 420 MiB a device.");
}

// The one that fits is the one with the least memory: said once.
TEST(AnswerChoice, SaysNothingTwice) {
  const auto lines = lines_of(with_memory(10000, 9600, 310), 400 * kMiB);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[3], StartsWith("Fastest that fits 400 MiB: zero2 on 2 devices"));
}

Report with_approximate(double exact, double rate) {
  Report report =
      report_with({{"single", 1, 7000}, {"ddp", 2, exact}, {"localsgd", 2, rate}, {"dp", 1, 7000}});
  approximate(report.runs[2], 0.04).strategy_options["sync_every"] = "4";
  report.runs[1].progress = {{0, 64, 1, 8192, 5, 0}, {0, 96, 1, 12288, 1.83, 0}};
  report.runs[2].progress = {{0, 64, 1, 8192, 6, 0},
                             {0, 80, 1, 10240, 1.9, 0},
                             {0, 96, 1, 12288, 1.94, 0},
                             {0, 128, 1, 16384, 0.1, 0}};
  return report;
}

TEST(AnswerChoice, NamesAFasterApproximateRunApart) {
  const auto lines = lines_of(with_approximate(8000, 13000));
  EXPECT_THAT(lines[0], StartsWith("ddp on 2 devices: 1.14 times the samples/s of one device"));
  EXPECT_EQ(lines.back(),
            "Approximate: localsgd on 2 devices, 62 % faster than the fastest exact run, loss 1.92 "
            "after the "
            "same samples (exact 1.83), 4.0 % from the reference.");
}

TEST(AnswerChoice, IsNotSureOfAnApproximateRunsLeadThatNoiseExplains) {
  EXPECT_THAT(lines_of(with_approximate(10000, 13000)).back(),
              HasSubstr(", 30 % faster than the fastest exact run (unsure), loss 1.92"));
  EXPECT_THAT(lines_of(with_approximate(10000, 4000)).back(),
              HasSubstr(", 60 % slower than the fastest exact run, loss 1.92"));
}

TEST(AnswerChoice, NamesNoLossThatIsNotOfTheSameSamples) {
  Report report = with_approximate(8000, 13000);
  report.runs[1].progress = {{0, 50, 1, 6400, 1.83, 0}};
  report.runs[2].verification.divergence.reset();
  EXPECT_EQ(lines_of(report).back(),
            "Approximate: localsgd on 2 devices, 62 % faster than the fastest exact run.");
}

// Nothing exact did the same work: no answer, but what is known of it.
TEST(AnswerChoice, NamesApproximateRunsAlone) {
  Report report = report_with({{"single", 1, 7000}, {"localsgd", 2, 13000}});
  approximate(report.runs[1], 0.04);
  EXPECT_EQ(lines_of(report), std::vector<std::string>{
                                  "Approximate: localsgd on 2 devices, 4.0 % from the reference."});
  report.runs.erase(report.runs.begin());
  EXPECT_TRUE(lines_of(report).empty());  // one row
}

// 2 x 64 in one pass, and 2 x 16 in four.
Report with_passes(double one, double four) {
  Report report =
      report_with({{"single", 1, 7000}, {"ddp", 2, one}, {"ddp", 2, four}, {"dp", 1, 7000}});
  report::Run& passes = report.runs[2];
  passes.per_device_batch_size = 16;
  passes.accumulation_steps = 4;
  report::Run single = report.runs[0];
  single.per_device_batch_size = 16;
  single.accumulation_steps = 4;
  report.runs.push_back(single);
  return report;
}

TEST(AnswerChoice, ComparesPassesOfEqualGlobalBatch) {
  const auto lines = lines_of(with_passes(13000, 8000));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2], "Global batch 128: ddp on 2 devices (batch 64 a device) is the fastest.");
  EXPECT_EQ(lines_of(with_passes(10000, 8000))[2],
            "Global batch 128: ddp on 2 devices (batch 64 a device) or ddp on 2 devices "
            "(batch 16 a device, 4 passes): cannot tell, 25 % apart.");
}

// How far is not known of one run each.
TEST(AnswerChoice, SaysHowFarTheFastestIsAheadWhereRepetitionsTell) {
  Report report = with_passes(13000, 8000), more = with_passes(13100, 8100);
  for (report::Run& run : more.runs) report.runs.emplace_back(run).repetition = 1;
  EXPECT_THAT(lines_of(report), Contains(HasSubstr("is the fastest, 62 % ahead of ddp on 2")));
  report = with_passes(13000, 8000);
  report.runs.erase(report.runs.begin() + 3);  // dp on 1 device: the yardstick
  EXPECT_THAT(lines_of(report), Contains(HasSubstr("cannot tell, 62 % apart.")));
}

TEST(AnswerChoice, ComparesNoPassesOfOtherGlobalBatches) {
  Report report = with_passes(13000, 8000);
  report.runs[2].global_batch_size = 512;
  EXPECT_EQ(lines_of(report).size(), 2U);
}

TEST(AnswerChoice, NamesNoFastestOfDisturbedRuns) {
  Report report = with_passes(13000, 8000);
  report.runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  for (const std::string& line : lines_of(report))
    EXPECT_THAT(line, Not(HasSubstr("is the fastest")));
}

struct Noise {
  double deviation = 0;  // of a repetition
  double drift = 0;      // from the first round to the last, in deviations
  double bursts = 0;     // share of the repetitions that other work slows by a quarter
};

// A comparison in rounds, in which ddp on 2 devices is `lead` ahead of dp.
Report drawn(Normal& normal, int repetitions, double lead, const Noise& noise,
             double on_several = 10000) {
  std::vector<Run> runs;
  for (int round = 0; round < repetitions; ++round) {
    for (const Setting& setting : kQuick) {
      const bool leads = setting.devices == 2 && setting.strategy == std::string("ddp");
      const double even = setting.devices == 1 ? 7000 : on_several * (leads ? 1 + lead : 1);
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

bool says(const Report& report, const std::string& claim) {
  return std::ranges::any_of(answer_lines(all_runs(report)), [&](const std::string& line) {
    return line.find(claim) != std::string::npos;
  });
}

// Several devices as fast as one, and the same work in one pass and in four.
TEST(Answer, TellsNoSpeedUpAndNoFastestOfEqualProgramsInOneOfAHundredCasesAtMost) {
  constexpr int kPairs = 17;
  Normal normal(11);
  for (const int repetitions : {1, 3}) {
    int beaten = 0, fastest = 0, pairs = 0;
    for (const double deviation : {0.03, 0.15}) {
      for (const Noise& noise :
           {Noise{deviation, 0, 0}, Noise{deviation, 2, 0}, Noise{deviation, 0, 0.1}}) {
        for (int i = 0; i < kPairs; ++i, ++pairs) {
          Report report = drawn(normal, repetitions, 0, noise, 7000);
          beaten += says(report, " beat 1.") || says(report, "one device is faster.") ? 1 : 0;
          for (report::Run& run : drawn(normal, repetitions, 0, noise, 7000).runs) {
            run.per_device_batch_size = 16;
            run.accumulation_steps = 4;
            report.runs.push_back(run);
          }
          fastest += says(report, "is the fastest") ? 1 : 0;
        }
      }
    }
    EXPECT_LE(beaten, pairs / 100) << repetitions << " repetitions";
    EXPECT_LE(fastest, pairs / 100) << repetitions << " repetitions";
  }
}

TEST(Answer, FindsATrueTenthAtThreePercentNoise) {
  Normal normal(7);
  EXPECT_GE(winners(5, 0.1, {.deviation = 0.03}, 300, normal), 288);
}

}  // namespace
}  // namespace ddpbench::report
