// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of settings. Each use of a setting shows in the functions that follow from the table.
#include "reports/data/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "reports/charts/chart_data.h"
#include "reports/data/report_view.h"
#include "reports/gate/gate_parts.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::sample_report;
using test::sample_run;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A change of one setting of a run, and the uses in which the changed run differs from the first.
struct Change {
  const char* key;
  void (*change)(Run& run);
  // Words of: cell, key, pair, weak, strong, name, table, title, subtitle, rank.
  const char* takes_part;
  const char* words = "";  // what names and titles say of the changed run
};

constexpr Change kChanges[] = {
    {"strategy", [](Run& run) { run.strategy = "dp"; }, "cell key"},
    {"world_size", [](Run& run) { run.world_size = 3; }, "cell key"},
    {"servers", [](Run& run) { run.servers = 2; }, "cell key"},
    {"backend", [](Run& run) { run.backend = "nccl"; }, "cell key name", "nccl"},
    {"injected", [](Run& run) { run.injected = "slow"; }, "cell name", "injected slow"},
    {"strategy_options", [](Run& run) { run.strategy_options["overlap"] = "off"; },
     "cell pair name", "overlap off"},
    {"model", [](Run& run) { run.model = "other"; }, "cell pair weak strong name table title rank",
     "other"},
    {"model_hash", [](Run& run) { run.model_hash = "fedcba9876543210"; },
     "cell pair weak strong name rank", "network fedcba98"},
    {"parameters", [](Run& run) { run.parameters = 9; }, "pair"},
    {"dataset/name", [](Run& run) { run.dataset_name = "other"; },
     "cell pair weak strong name table title rank", "other (files)"},
    {"dataset/source", [](Run& run) { run.dataset_source = "synthetic"; },
     "cell pair name table title rank", "mnist (synthetic)"},
    {"dataset/augment", [](Run& run) { run.augment = true; },
     "cell pair weak strong name table title rank", "augmented"},
    {"dataset/train_samples", [](Run& run) { run.train_samples = 9; }, "pair name rank",
     "9 training samples"},
    {"dataset/test_samples", [](Run& run) { run.test_samples = 9; }, "pair name rank",
     "9 test samples"},
    {"label", [](Run& run) { run.label = "naive"; }, "cell name", "naive"},
    {"predicted", [](Run& run) { run.predicted = true; }, "cell weak strong name", "predicted"},
    {"device", [](Run& run) { run.device = "cuda"; },
     "cell pair weak strong name table subtitle rank", "cuda"},
    {"device_model", [](Run& run) { run.device_model = "Fabled 1"; },
     "cell pair weak strong name table subtitle rank", "cpu (Fabled 1)"},
    {"threads_per_device", [](Run& run) { run.threads_per_device = 5; },
     "cell pair weak strong name table subtitle rank", "5 threads a device"},
    {"precision", [](Run& run) { run.precision = "bf16"; },
     "cell pair weak strong name table subtitle rank", "bf16"},
    {"strategy_options/loader_cost_us",
     [](Run& run) { run.strategy_options["loader_cost_us"] = "40"; },
     "cell pair weak strong name table title rank", "loader cost 40 us a sample"},
    {"strategy_options/emulated_gil_us",
     [](Run& run) { run.strategy_options["emulated_gil_us"] = "15"; },
     "cell pair weak strong name table title rank", "emulated GIL 15 us a call"},
    {"strategy_options/emulated_link",
     [](Run& run) { run.strategy_options["emulated_link"] = "1Gbit,50us"; },
     "cell pair weak strong name table title rank", "emulated link 1Gbit,50us"},
    {"scaling_mode", [](Run& run) { run.scaling_mode = "strong"; }, "cell pair name table title",
     "strong scaling"},
    {"per_device_batch_size", [](Run& run) { run.per_device_batch_size = 7; },
     "cell pair weak name title", "batch 7 a device"},
    {"global_batch_size", [](Run& run) { run.global_batch_size = 7; }, "cell pair strong rank"},
    {"accumulation_steps", [](Run& run) { run.accumulation_steps = 3; },
     "cell pair weak name title", "3 passes"},
    {"optimizer/name", [](Run& run) { run.optimizer_name = "adam"; }, "cell pair name", "adam"},
    {"optimizer", [](Run& run) { run.optimizer["lr"] = 0.5; }, "cell pair name", "lr 0.5"},
    {"optimizer/nesterov", [](Run& run) { run.optimizer_choices["nesterov"] = "on"; },
     "cell pair name", "nesterov on"},
    {"epochs", [](Run& run) { run.epochs.resize(7); }, "pair"},
    {"steps", [](Run& run) { run.step.count = 999; }, "pair"},
    {"oversubscribed", [](Run& run) { run.oversubscribed = true; }, "pair"},
    {"until_accuracy",
     [](Run& run) {
       run.until_accuracy = AccuracyTarget{0.98, {}};
     },
     "pair"},
};

class SettingColumns : public testing::TestWithParam<Change> {
 protected:
  static report::Run plain() {
    report::Run run = sample_run("ddp", 2, 100);
    run.strategy_options = {{"overlap", "on"}};
    return run;
  }
  static report::Run changed() {
    report::Run run = plain();
    GetParam().change(run);
    return run;
  }
  static bool takes_part(const std::string& column) {
    return (" " + std::string(GetParam().takes_part) + " ").find(" " + column + " ") !=
           std::string::npos;
  }
  static Report report_of(std::vector<report::Run> runs) {
    Report report = sample_report();
    report.runs = std::move(runs);
    return report;
  }
};

TEST_P(SettingColumns, CellsAreThoseOfTheirRuns) {
  const Report report = report_of({plain(), changed()});
  EXPECT_EQ(repetition_groups(all_runs(report)).size() == 1, !takes_part("cell"));
}

std::vector<Cell> cells_of(const Report& report) {
  std::deque<Run> collectives;
  return single_cells(std::span(&report, 1), collectives);
}

TEST_P(SettingColumns, PairsHaveEqualSettings) {
  Report report = sample_report();
  report.runs = {plain(), changed()};
  const std::vector<Cell> cells = cells_of(report);
  EXPECT_EQ(cells[0].key != cells[1].key, takes_part("key"));
  const auto differing = differing_keys(cells[0].settings, cells[1].settings);
  EXPECT_EQ(!differing.empty(), takes_part("pair"));
  for (const std::string& key : differing) EXPECT_THAT(key, HasSubstr(GetParam().key));
}

// A `single` run is a baseline of the changed run only where both do the same work.
TEST_P(SettingColumns, BaselinesDoTheSameWork) {
  const std::set<std::string> says_what_scales = {"scaling_mode", "oversubscribed", "strategy"};
  if (says_what_scales.contains(GetParam().key)) GTEST_SKIP() << "no scaling, or another one";
  for (const char* mode : {"weak", "strong"}) {
    report::Run single = plain(), run = changed();
    single.strategy = "single";
    single.scaling_mode = run.scaling_mode = mode;
    Report report = report_of({single, run});
    fill_scaling(report);
    EXPECT_EQ(report.runs[1].scaling.has_value(), !takes_part(mode)) << mode;
  }
}

TEST_P(SettingColumns, OnlyRunsThatDoTheSameWorkCompete) {
  const Report report = report_of({plain(), changed()});
  const std::vector<RunRow> rows = all_runs(report);
  EXPECT_EQ(contests(rows).size() == 1, !takes_part("rank"));
}

TEST_P(SettingColumns, NamesTellRunsApart) {
  const Report report = report_of({plain(), changed()});
  const RunNames names(report);
  const std::string name = names.setting(report.runs[1]);
  if (takes_part("name")) {
    EXPECT_THAT(name, HasSubstr(GetParam().words));
  }
  if (!takes_part("key") || takes_part("name")) {
    EXPECT_EQ(name != names.setting(report.runs[0]), takes_part("name")) << name;
  }
}

TEST_P(SettingColumns, TitlesStateThem) {
  const Report report = report_of({plain(), changed()});
  const std::string words = GetParam().words;
  const std::string table = caption(all_runs(report));
  EXPECT_EQ(!words.empty() && table.find(words) != std::string::npos, takes_part("table")) << table;
  const ChartCaption chart = scaling_chart({&report, 1}).caption;
  const auto states = [&](const std::string& text) {
    return !words.empty() && text.find(words) != std::string::npos;
  };
  EXPECT_EQ(states(chart.title), takes_part("title")) << chart.title;
  EXPECT_EQ(states(chart.subtitle), takes_part("subtitle")) << chart.subtitle;
}

INSTANTIATE_TEST_SUITE_P(All, SettingColumns, testing::ValuesIn(kChanges),
                         [](const testing::TestParamInfo<Change>& tested) {
                           std::string name = tested.param.key;
                           for (char& c : name) c = c == '/' || c == '_' ? 'X' : c;
                           return name;
                         });

TEST(Settings, AreAllTested) {
  std::set<std::string> tested = {"config/residency", "config/deterministic"};
  for (const Change& change : kChanges) tested.insert(change.key);
  for (const Setting& setting : setting_table()) {
    EXPECT_TRUE(tested.contains(std::string(setting.key))) << setting.key;
  }
}

Report configured(const std::string& config) {
  Report report = sample_report();
  report.config_json = config;
  report.runs = {sample_run("ddp", 2, 100)};
  return report;
}

TEST(Settings, OfTheConfigurationTellReportsApart) {
  const Report host = configured(R"({"residency":"host","deterministic":false,"seed":1})");
  const Report device = configured(R"({"residency":"device","deterministic":true,"seed":2})");
  const Settings a = cells_of(host)[0].settings, b = cells_of(device)[0].settings;
  EXPECT_THAT(differing_keys(a, b), ElementsAre("config/deterministic", "config/residency"));
  const std::vector<Report> both = {host, device};
  std::vector<std::string> names;
  for (const ChartSeries& series : scaling_chart(both).series) names.push_back(series.name);
  EXPECT_THAT(names, ElementsAre("ddp, deterministic, residency device",
                                 "ddp, not deterministic, residency host"));
}

TEST(Settings, OfAConfigurationThatSaysNothingAreAbsent) {
  EXPECT_THAT(config_settings(configured("{}"), kPairUse), IsEmpty());
  EXPECT_THAT(config_settings(configured(R"({"residency":null})"), kPairUse), IsEmpty());
  EXPECT_THAT(config_settings(configured("no JSON"), kPairUse), IsEmpty());
}

TEST(Settings, AreSaidInWords) {
  EXPECT_EQ(value_words("strategy_options/first_bucket_mb", "1"), "first bucket 1 MiB");
  EXPECT_EQ(value_words("strategy_options/bucket_cap_mb", "0.5"), "bucket cap 0.5 MiB");
  EXPECT_EQ(value_words("strategy_options/ps_update", "server"), "update on the server");
  EXPECT_EQ(value_words("strategy_options/server_device", "cpu"), "servers on cpu");
  EXPECT_EQ(value_words("strategy_options/cuda_graph", "off"), "CUDA graphs off");
  EXPECT_EQ(value_words("strategy_options/overlap", "on"), "overlap on");
  EXPECT_EQ(value_words("optimizer/weight_decay", "0.1"), "weight decay 0.1");
}

// As in imports that were not told it.
TEST(Settings, NameNoBatchThatIsNotRecorded) {
  report::Run run = sample_run("ddp", 2, 100);
  run.per_device_batch_size = run.global_batch_size = 0;
  for (const SettingWords& words : name_words(run)) EXPECT_NE(words.key, "per_device_batch_size");
  const Report report = test::report_of({run});
  EXPECT_THAT(steps_chart({&report, 1}).caption.title, testing::Not(HasSubstr("batch")));
}

TEST(Settings, WithoutAValueAreAbsent) {
  report::Run run = sample_run("ddp", 2, 100);
  run.backend.clear();
  run.parameters = 0;
  run.status = Status::failed;
  const Settings settings = settings_of(run, kPairKeyUse | kPairUse);
  for (const char* key : {"backend", "parameters", "steps", "epochs", "oversubscribed"}) {
    EXPECT_FALSE(settings.contains(key)) << key;
  }
}

}  // namespace
}  // namespace ddpbench::report
