// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// "runs" of a configuration: what an entry may have, what it is combined with, which runs it makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/options/option_table.h"
#include "bench/plan/data_places.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"
#include "reports/data/settings.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A configuration c.json, and commands that use it.
class RunList : public ::testing::Test {
 protected:
  Options read(const std::string& text, std::vector<std::string> more = {}) {
    folder_.write("c.json", text);
    more.insert(more.begin(), "--config=c");
    return options_of(more, {variables, {folder_.path()}});
  }
  std::string refused(const std::string& text, std::vector<std::string> more = {}) {
    return message_of([&] { read(text, std::move(more)); });
  }
  static std::vector<std::string> titles(const Options& options) {
    std::vector<std::string> result;
    for (const RunCell& cell : plan_matrix(options)) result.push_back(run_title(cell, options));
    return result;
  }

  std::map<std::string, std::string> variables;

 private:
  TemporaryDirectory folder_;
};

const std::string kTwoArms = R"({
  "gpus": 2, "optimizer": {"lr": 0.05},
  "runs": [{"strategy": "dp", "global_batch_size": 256, "loader_workers": 4},
           {"strategy": "ddp", "batch_size": 1024, "loader_workers": 2}]})";

TEST_F(RunList, GivesEachEntryItsOwnValuesBesideThoseOfTheFile) {
  const Options options = read(kTwoArms);
  ASSERT_EQ(options.runs.size(), 2u);
  EXPECT_THAT(options.runs[0].strategies, ElementsAre("dp"));
  EXPECT_THAT(options.runs[0].global_batch_sizes, ElementsAre(256));
  EXPECT_TRUE(options.runs[0].batch_sizes.empty());
  EXPECT_THAT(options.runs[1].batch_sizes, ElementsAre(1024));
  EXPECT_EQ(options.runs[1].loader_workers, std::vector<int>{2});
  for (const Options& entry : options.runs) {
    EXPECT_THAT(entry.gpus, ElementsAre(2));
    EXPECT_EQ(entry.lr, 0.05);
  }
}

TEST_F(RunList, MakesARunOfEachEntryAndNamesWhatTheyDifferIn) {
  const Options options = read(kTwoArms);
  const auto cells = plan_matrix(options);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].global_batch_size, 256);
  EXPECT_EQ(cells[1].batch_size, 1024);
  EXPECT_FALSE(cells[1].is_strong());
  EXPECT_EQ(&entry_options(options, cells[1]), &options.runs[1]);
  EXPECT_THAT(titles(options), ElementsAre("dp on 2 devices, global batch 256, loader workers 4",
                                           "ddp on 2 devices, batch 1024, loader workers 2"));
}

TEST_F(RunList, MakesTheCombinationsOfListsWithinAnEntryAndEachRunOnce) {
  EXPECT_THAT(titles(read(R"({"batch_size": [8, 16], "gpus": 2, "runs": [
                {"strategy": ["ddp", "single"]}, {"strategy": ["single", "dp"], "batch_size": 8}]})")),
              ElementsAre("single on 1 device, batch 8", "single on 1 device, batch 16",
                          "ddp on 2 devices, batch 8", "ddp on 2 devices, batch 16",
                          "dp on 2 devices, batch 8"));
}

TEST_F(RunList, NamesNoValueThatDoesNothingBesideAnothers) {
  EXPECT_THAT(titles(read(R"({"gpus": 2, "strategy": "ddp", "runs": [
                {"optimizer": {"momentum": 0.5}}, {"optimizer": {"name": "adam"}}]})")),
              ElementsAre(AllOf(HasSubstr("sgd"), Not(HasSubstr("beta"))),
                          AllOf(HasSubstr("adam"), Not(HasSubstr("momentum")))));
}

TEST_F(RunList, LetsFlagsAndVariablesTakeThePlaceOfAnEntrysValues) {
  variables["DDPBENCH_LR"] = "0.5";
  const Options options = read(kTwoArms, {"--loader-workers=0"});
  for (const Options& entry : options.runs) {
    EXPECT_EQ(entry.loader_workers, std::vector<int>{0});
    EXPECT_EQ(entry.lr, 0.5);
  }
  EXPECT_EQ(read(kTwoArms, {"--gpus=2,4"}).runs[1].gpus, (std::vector<int>{2, 4}));
}

TEST_F(RunList, IsRefusedWhereAFlagMakesEntriesEqual) {
  const std::string text =
      R"({"runs": [{"strategy": "dp", "gpus": 2}, {"strategy": "ddp", "gpus": 2}]})";
  EXPECT_THAT(refused(text, {"--strategy=dp"}),
              AllOf(HasSubstr("c.json: /runs/1: it makes no run that"), HasSubstr("leave out")));
  EXPECT_THAT(refused(R"({"runs": [{}, {}]})"), HasSubstr("c.json: /runs/1: it makes no run"));
}

TEST_F(RunList, NamesThePlaceOfAnError) {
  EXPECT_THAT(refused(R"({"runs": [{"strategy": "dp"}, {"gpus": 0}]})"),
              HasSubstr("c.json: /runs/1/gpus: "));
  EXPECT_THAT(refused(R"({"runs": [{"optimizer": {"momentun": 0}}]})"),
              HasSubstr("c.json: /runs/0/optimizer/momentun: unknown key. Did you mean "
                        "'/runs/0/optimizer/momentum'?"));
  EXPECT_THAT(refused(R"({"runs": [{"epochs": 2}]})"),
              HasSubstr("c.json: /runs/0/epochs: it is the same for all runs of a report"));
  EXPECT_THAT(refused(R"({"run": []})"),
              HasSubstr("c.json: /run: unknown key. Did you mean '/runs'?"));
  EXPECT_THAT(refused(R"({"runs": []})"), HasSubstr("c.json: /runs: expected a list of objects"));
  EXPECT_THAT(refused(R"({"runs": [{"strategy": "dp"}, 7]})"),
              HasSubstr("c.json: /runs/1: expected an object, got 7."));
  EXPECT_THAT(refused(R"({"runs": [{"strategy": "dp", "gpus": 2, "global_batch_size": 5}]})"),
              HasSubstr("c.json: /runs/0: --global-batch-size=5 cannot be divided by --gpus=2"));
  EXPECT_THAT(refused(R"({"optimizer": {"name": "adam"}, "runs": [{"momentum": 0.5}]})"),
              HasSubstr("c.json: /runs/0/momentum: it does nothing with adam"));
}

TEST_F(RunList, IsForRunsThatTheProgramStartsItself) {
  EXPECT_THAT(refused(kTwoArms, {"tune", "--gpus=2"}), HasSubstr("`ddpbench tune` makes its own"));
  EXPECT_THAT(refused(kTwoArms, {"fit"}), HasSubstr("c.json: /runs: `ddpbench fit` makes its own"));
  EXPECT_THAT(refused(kTwoArms, {"--save-model=x"}), HasSubstr("this command makes 2 runs"));
}

TrainingJob planned(const Options& options, const RunCell& cell) {
  data::DatasetInfo dataset;
  dataset.train_samples = 10000;
  HostDevices host;
  host.cpu.cores = {0, 1};
  Options entry = entry_options(options, cell);
  entry.device = entry.server_device = "cpu";
  entry.backend = "shm";
  if (entry.precision == "auto") entry.precision = "fp32";
  Network network{find_model("simple_cnn"), "net", "1234"};
  network.has_state = true;
  return make_training_job(entry, cell, dataset, network, host);
}

// Options of CUDA runs alone (planned_run) are not planned without a GPU. Saving is no part of what
// is measured: Session says that an entry which differs in it alone makes no run of its own.
const std::set<std::string> kNotCompared = {"cuda-graph", "server-device", "checkpoint"};

// [option] An entry that differs in it.
std::map<std::string, std::string> changes_of_entries() {
  return {{"strategy", R"("strategy": "ps")"},
          {"label", R"("label": "mine")"},
          {"gpus", R"("gpus": 4)"},
          {"batch-size", R"("batch_size": 16)"},
          {"global-batch-size", R"("global_batch_size": 16)"},
          {"accumulation-steps", R"("accumulation_steps": 2)"},
          {"accumulation-sync", R"("accumulation_steps": 2, "accumulation_sync": "every")"},
          {"precision", R"("precision": "bf16")"},
          {"servers", R"("strategy": "ps", "servers": 2)"},
          {"first-bucket-mb", R"("first_bucket_mb": 0.5)"},
          {"bucket-cap-mb", R"("bucket_cap_mb": 2)"},
          {"overlap", R"("overlap": false)"},
          {"all-reduce", R"("all_reduce": "ring")"},
          {"comm-hook", R"("comm_hook": "bf16")"},
          {"devices-per-process", R"("devices_per_process": 2)"},
          {"broadcast-buffers", R"("broadcast_buffers": false)"},
          {"sync-batch-norm", R"("sync_batch_norm": true)"},
          {"ps-update", R"("strategy": "ps", "ps_update": "worker")"},
          {"sync-every", R"("strategy": "localsgd", "sync_every": 2)"},
          {"outer-lr", R"("strategy": "localsgd", "outer_lr": 0.5)"},
          {"stages", R"("strategy": "pipeline", "stages": 1)"},
          {"micro-batches", R"("strategy": "pipeline", "micro_batches": 2)"},
          {"unit-mb", R"("strategy": "zero3", "unit_mb": 1)"},
          {"schedule", R"("strategy": "pipeline", "schedule": "gpipe")"},
          {"cut", R"("strategy": "pipeline", "cut": "pool1")"},
          {"outer-momentum", R"("strategy": "localsgd", "outer_momentum": 0.5)"},
          {"ps-mode", R"("strategy": "ps", "ps_mode": "async")"},
          {"max-staleness", R"("strategy": "ps", "ps_mode": "async", "max_staleness": 2)"},
          {"backup-workers", R"("strategy": "ps", "backup_workers": 1)"},
          {"loader-workers", R"("loader_workers": 3)"},
          {"loader-cost", R"("loader_cost": 3)"},
          {"emulate-gil", R"("emulate_gil": 3)"},
          {"emulate-link", R"("emulate_link": "1Gbit,50us")"},
          {"optimizer", R"("optimizer": {"name": "adam"})"},
          {"lr", R"("lr": 0.5)"},
          {"momentum", R"("momentum": 0.5)"},
          {"nesterov", R"("nesterov": true)"},
          {"beta1", R"("optimizer": {"name": "adam", "beta1": 0.5})"},
          {"beta2", R"("optimizer": {"name": "adam", "beta2": 0.5})"},
          {"epsilon", R"("optimizer": {"name": "adam", "epsilon": 0.5})"},
          {"weight-decay", R"("weight_decay": 0.5)"},
          {"lr-scaling", R"("lr_scaling": "linear")"},
          {"lr-schedule", R"("lr_schedule": "cosine")"},
          {"lr-step-size", R"("lr_schedule": "step", "lr_step_size": 5)"},
          {"lr-gamma", R"("lr_schedule": "step", "lr_step_size": 5, "lr_gamma": 0.5)"},
          {"lr-cosine-steps", R"("lr_schedule": "cosine", "lr_cosine_steps": 5)"},
          {"lr-min", R"("lr_schedule": "cosine", "lr_min": 0.001)"},
          {"lr-warmup-steps", R"("lr_warmup_steps": 5)"},
          {"lr-warmup-factor", R"("lr_warmup_steps": 5, "lr_warmup_factor": 0.5)"}};
}

// Otherwise two entries would look like repetitions of each other, and --resume could not tell
// which of them an earlier run is of.
TEST_F(RunList, TellsRunsApartByEachOptionThatAnEntryMayHave) {
  const std::map<std::string, std::string> changes = changes_of_entries();
  std::map<report::Settings, std::string> keys;
  for (const OptionDefinition& option : option_table()) {
    if (!option.is_per_run() || kNotCompared.contains(option.name)) continue;
    ASSERT_TRUE(changes.contains(option.name)) << option.name;
    const Options options = read(std::string(R"({"strategy": "ddp", "gpus": 2, "runs": [{}, {)") +
                                 changes.at(option.name) + "}]}");
    const auto cells = plan_matrix(options);
    ASSERT_EQ(cells.size(), 2u) << option.name;
    const auto key = report::cell_key(planned_run(planned(options, cells[1])));
    EXPECT_NE(key, report::cell_key(planned_run(planned(options, cells[0])))) << option.name;
    const auto [other, added] = keys.emplace(key, option.name);
    EXPECT_TRUE(added) << option.name << " and " << other->second;
  }
}

TEST_F(RunList, SharesReferencesWhereWeightsAreUpdatedAlike) {
  const auto references = [&](const std::string& runs) {
    const Options options =
        read(std::string(R"({"strategy": "ddp", "gpus": 2, "runs": [)") + runs + "]}");
    std::set<std::string> keys;
    for (const RunCell& cell : plan_matrix(options)) {
      keys.insert(reference_key(planned(options, cell)));
    }
    return keys.size();
  };
  EXPECT_EQ(references(R"({"loader_workers": 1}, {"loader_workers": 2}, {"strategy": "dp"})"), 1u);
  EXPECT_EQ(references(R"({"momentum": 0.1}, {"momentum": 0.2})"), 2u);
  EXPECT_EQ(references(R"({}, {"optimizer": {"name": "adam", "lr": 0.01}})"), 2u);
  EXPECT_EQ(references(R"({}, {"lr_schedule": "cosine"})"), 2u);
  EXPECT_EQ(references(R"({}, {"precision": "bf16"})"), 2u);
}

}  // namespace
}  // namespace ddpbench::bench
