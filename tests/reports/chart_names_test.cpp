// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Titles, and the names of lines when runs differ.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "reports/charts/chart_data.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(std::span<const Report> reports) {
  std::vector<std::string> names;
  for (const ChartSeries& series : scaling_chart(reports).series) names.push_back(series.name);
  return names;
}

TEST(ChartTitle, StatesNetworkBatchModeAndMachine) {
  const Report report = report_of({sample_run("ddp", 2, 1)});
  const ChartCaption caption = scaling_chart({&report, 1}).caption;
  EXPECT_EQ(caption.title, "Scaling: simple_cnn on mnist (files), weak scaling, batch 64 a device");
  EXPECT_EQ(caption.subtitle,
            "Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32");
}

TEST(ChartTitle, StatesTheGlobalBatchOfStrongScaling) {
  report::Run run = sample_run("ddp", 2, 1);
  run.scaling_mode = "strong";
  const Report report = report_of({run});
  EXPECT_THAT(scaling_chart({&report, 1}).caption.title,
              HasSubstr("strong scaling, global batch 128"));
}

TEST(ChartTitle, CountsValuesThatItHasNoRoomFor) {
  std::vector<report::Run> runs(5, sample_run("ddp", 2, 1));
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].model = "net" + std::to_string(i);
  const Report report = report_of(runs);
  EXPECT_THAT(scaling_chart({&report, 1}).caption.title,
              HasSubstr("net0 / net1 / net2 / 2 more on mnist"));
}

TEST(SeriesNames, AreTheStrategyWhereNothingElseDiffers) {
  const Report report = report_of({sample_run("single", 1, 1), sample_run("ddp", 2, 1)});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("single", "ddp"));
}

TEST(SeriesNames, TellRunsApartByTheOptionsInWhichTheyDiffer) {
  report::Run on = sample_run("ddp", 2, 1), off = on;
  on.strategy_options = {{"overlap", "on"}, {"bucket_cap_mb", "25"}};
  off.strategy_options = {{"overlap", "off"}, {"bucket_cap_mb", "25"}};
  report::Run other = sample_run("ps", 2, 1);
  other.strategy_options = {{"ps_update", "server"}};
  const Report report = report_of({on, off, other});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp, overlap off", "ddp, overlap on", "ps"));
}

// A run that has no option is no repetition of one that has.
TEST(SeriesNames, TellAnOptionThatOnlySomeHave) {
  report::Run plain = sample_run("dp", 2, 1), synced = plain, one = sample_run("dp", 1, 1);
  synced.strategy_options = {{"sync_batch_norm", "on"}};
  const Report report = report_of({one, plain, synced, sample_run("ddp", 2, 1)});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("dp", "dp, sync batch norm on", "ddp"));
}

TEST(SeriesNames, TellEveryOptionThatIsNamedOnlyWhereItIsChosen) {
  const std::pair<const char*, const char*> kOptions[] = {{"comm_hook", "fp16"},
                                                          {"outer_lr", "0.7"},
                                                          {"outer_momentum", "0.9"},
                                                          {"unit_mb", "4"},
                                                          {"cut", "conv2"}};
  for (const auto& [key, value] : kOptions) {
    report::Run plain = sample_run("ddp", 2, 1), chosen = plain;
    chosen.strategy_options[key] = value;
    const Report report = report_of({plain, chosen});
    EXPECT_THAT(names_of({&report, 1}),
                testing::UnorderedElementsAre("ddp", testing::StartsWith("ddp, ")))
        << key;
  }
}

// The line goes on to one device, where it is exact.
TEST(SeriesNames, SayWhatIsApproximate) {
  report::Run one = sample_run("localsgd", 1, 1), two = sample_run("localsgd", 2, 1);
  two.verification.reason = Verification::kByDesign;
  const Report report = report_of({one, two, sample_run("ddp", 2, 1)});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp", "localsgd, approximate"));
}

// An older program, or another one, does not record what it did.
TEST(SeriesNames, AreNotSplitByWhatARunDoesNotRecord) {
  report::Run recorded = sample_run("ddp", 2, 1), other = sample_run("ddp", 2, 1);
  recorded.strategy_options = {{"all_reduce", "direct"}, {"overlap", "on"}};
  recorded.model_hash = "0123456789abcdef";
  const Report report = report_of({recorded, other});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp"));
}

// The option has nothing to choose on one device.
TEST(SeriesNames, AreNotSplitByAnOptionThatOneDeviceLacks) {
  report::Run one = sample_run("ddp", 1, 1), two = sample_run("ddp", 2, 1);
  two.strategy_options = {{"all_reduce", "direct"}};
  const Report report = report_of({one, two});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp"));
}

TEST(SeriesNames, AndTitlesTellCostsAlsoWhereStrategiesDiffer) {
  report::Run plain = sample_run("dp", 2, 1), costly = sample_run("ddp", 2, 1);
  costly.strategy_options = {{"emulated_gil_us", "500"}};
  const Report report = report_of({plain, costly});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("dp", "ddp, emulated GIL 500 us a call"));
  EXPECT_THAT(scaling_chart({&report, 1}).caption.title,
              HasSubstr("no emulated GIL / emulated GIL 500 us a call"));
}

TEST(SeriesNames, AreNotSplitByTheBackendThatOneDeviceLacks) {
  report::Run one = sample_run("ddp", 1, 1), gloo = sample_run("ddp", 2, 1);
  one.backend = "none";
  const Report report = report_of({one, sample_run("ddp", 2, 1)});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp"));
  gloo.backend = "gloo";
  const Report both = report_of({one, sample_run("ddp", 2, 1), gloo});
  EXPECT_THAT(names_of({&both, 1}), ElementsAre("ddp", "ddp, gloo", "ddp, shm"));
}

TEST(SeriesNames, StateTheSizesOfBuckets) {
  report::Run one = sample_run("ddp", 2, 1), other = one;
  one.strategy_options = {{"bucket_cap_mb", "0.5"}, {"first_bucket_mb", "0.25"}};
  other.strategy_options = {{"bucket_cap_mb", "25"}, {"first_bucket_mb", "1"}};
  const Report report = report_of({one, other});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp, bucket cap 0.5 MiB, first bucket 0.25 MiB",
                                                  "ddp, bucket cap 25 MiB, first bucket 1 MiB"));
}

TEST(SeriesNames, TellOptimizersApart) {
  report::Run slow = sample_run("ddp", 2, 1), fast = slow;
  slow.optimizer = {{"lr", 0.01}, {"momentum", 0.9}, {"weight_decay", 0}};
  fast.optimizer = {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0}};
  const Report report = report_of({slow, fast});
  EXPECT_THAT(names_of({&report, 1}), ElementsAre("ddp, lr 0.01", "ddp, lr 0.1"));
}

TEST(Elided, KeepsTheBeginningAndTheEndWhole) {
  const auto count = [](std::string_view text) {
    return static_cast<double>(
        std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  };
  EXPECT_EQ(elided("ddp, overlap off", 16, count), "ddp, overlap off");
  EXPECT_EQ(elided("ddp, cap 0.5, overlap off", 16, count), "ddp, \u2026verlap off");
  EXPECT_EQ(elided("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 4, count), "\u00e4\u2026\u00f6\u00fc");
  EXPECT_EQ(elided("abc", 0, count), "\u2026");
}

TEST(SeriesNames, TellBatchesApart) {
  report::Run large = sample_run("ddp", 2, 1);
  large.per_device_batch_size = 128;
  const Report report = report_of({sample_run("ddp", 2, 1), large});
  EXPECT_THAT(names_of({&report, 1}),
              ElementsAre("ddp, batch 64 a device", "ddp, batch 128 a device"));
}

TEST(SeriesNames, TellMachinesApartWithLettersThatTheSubtitleExplains) {
  std::vector<Report> reports(2, report_of({sample_run("ddp", 2, 1)}));
  reports[1].environment.cpu.model = "Fabled 1";
  reports[1].environment.gpus.clear();
  reports[1].environment.hosts = {"castle"};
  reports[1].runs[0].device_model = "Fabled 1";
  EXPECT_THAT(names_of(reports), ElementsAre("ddp, machine A", "ddp, machine B"));
  EXPECT_EQ(scaling_chart(reports).caption.subtitle,
            "different machines: A: node (Imaginary 9000, 2 cores, Imaginary GPU); B: castle "
            "(Fabled 1, 2 cores); cpu, 1 thread a device, fp32");
}

TEST(SeriesNames, TellVersionsApart) {
  std::vector<Report> reports(2, report_of({sample_run("ddp", 2, 1)}));
  reports[1].generator.version = "0.2.0";
  EXPECT_THAT(names_of(reports), ElementsAre("ddp, ddpbench 0.1.0", "ddp, ddpbench 0.2.0"));
  reports[1].generator = reports[0].generator;
  reports[1].generator.name = "ddpbench-pytorch-peer";
  EXPECT_THAT(names_of(reports),
              ElementsAre("ddp, ddpbench 0.1.0", "ddp, ddpbench-pytorch-peer 0.1.0"));
  reports[0].generator = {"0.1.0", "0123456789abcdef", false, ""};
  reports[1].generator = {"0.1.0", "0123456789abcdef", true, ""};
  EXPECT_THAT(names_of(reports), ElementsAre("ddp, ddpbench 0.1.0 (0123456789ab with changes)",
                                             "ddp, ddpbench 0.1.0 (0123456789ab)"));
  reports[1].generator = {"0.1.0", "0123456789abcdef", std::nullopt, "the commit was given"};
  EXPECT_THAT(names_of(reports),
              ElementsAre("ddp, ddpbench 0.1.0 (0123456789ab)",
                          "ddp, ddpbench 0.1.0 (0123456789ab, changes unknown)"));
}

TEST(SeriesNames, PoolReportsOfTheSameThing) {
  const std::vector<Report> reports(2, report_of({sample_run("ddp", 2, 1)}));
  const ScalingChart chart = scaling_chart(reports);
  EXPECT_EQ(chart.points.size(), 1U);
  EXPECT_EQ(chart.points[0].samples_per_s.count, 2);
}

}  // namespace
}  // namespace ddpbench::report
