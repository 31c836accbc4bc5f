// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The matrix that lists of options make.
#include "bench/plan/sweep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/plan/run_plan.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns "ddp on 2 devices, batch 8, ..." for every cell.
std::vector<std::string> titles(const std::vector<std::string>& arguments) {
  const Options options = options_of(arguments);
  std::vector<std::string> result;
  for (const RunCell& cell : plan_matrix(options)) result.push_back(run_title(cell, options));
  return result;
}

TEST(Matrix, IsEveryStrategyWithEveryDeviceCount) {
  EXPECT_THAT(
      titles({"--strategy=ddp,dp", "--gpus=1,2"}),
      ElementsAre("ddp on 1 device", "ddp on 2 devices", "dp on 1 device", "dp on 2 devices"));
}

TEST(Matrix, HasSingleFirstAndOncePerBatchSize) {
  EXPECT_THAT(titles({"--strategy=ddp,single", "--gpus=2", "--batch-size=8,16"}),
              ElementsAre("single on 1 device, batch 8", "single on 1 device, batch 16",
                          "ddp on 2 devices, batch 8", "ddp on 2 devices, batch 16"));
}

TEST(Matrix, BucketSizesMultiplyDdpAlone) {
  EXPECT_THAT(titles({"--strategy=single,dp,ddp,ps", "--gpus=2", "--first-bucket-mb=0.25,1"}),
              ElementsAre("single on 1 device", "dp on 2 devices",
                          "ddp on 2 devices, first bucket 0.25 MiB",
                          "ddp on 2 devices, first bucket 1 MiB", "ps on 2 devices and 1 server"));
}

TEST(Matrix, OneDeviceHasNoBuckets) {
  EXPECT_THAT(titles({"--strategy=ddp", "--gpus=1,2", "--bucket-cap-mb=1,4", "--overlap=on"}),
              ElementsAre("ddp on 1 device", "ddp on 2 devices, bucket cap 1 MiB",
                          "ddp on 2 devices, bucket cap 4 MiB"));
}

TEST(Matrix, OverlapMultipliesDdpAndPs) {
  EXPECT_THAT(
      titles({"--strategy=dp,ddp,ps", "--gpus=2", "--overlap=on,off"}),
      ElementsAre("dp on 2 devices", "ddp on 2 devices, overlap on",
                  "ddp on 2 devices, overlap off", "ps on 2 devices and 1 server, overlap on",
                  "ps on 2 devices and 1 server, overlap off"));
  EXPECT_THAT(titles({"--strategy=single,dp,ddp", "--gpus=2", "--cuda-graph=on,off"}),
              ElementsAre("single on 1 device, CUDA graphs on",
                          "single on 1 device, CUDA graphs off", "dp on 2 devices",
                          "ddp on 2 devices, CUDA graphs on", "ddp on 2 devices, CUDA graphs off"));
}

TEST(Matrix, ServersAndUpdateMultiplyPsAlone) {
  EXPECT_THAT(
      titles({"--strategy=ddp,ps", "--gpus=2", "--servers=1,2", "--ps-update=server,worker"}),
      ElementsAre("ddp on 2 devices", "ps on 2 devices and 1 server, update on the server",
                  "ps on 2 devices and 1 server, update on the worker",
                  "ps on 2 devices and 2 servers, update on the server",
                  "ps on 2 devices and 2 servers, update on the worker"));
}

// One pass has nothing to synchronise between passes, and one device nobody to do it with.
TEST(Matrix, AccumulationMultipliesAllAndItsSyncDdpAlone) {
  EXPECT_THAT(titles({"--strategy=single,dp,ddp", "--gpus=2", "--accumulation-steps=1,4",
                      "--accumulation-sync=last,every"}),
              ElementsAre("single on 1 device, 1 pass", "single on 1 device, 4 passes",
                          "dp on 2 devices, 1 pass", "dp on 2 devices, 4 passes",
                          "ddp on 2 devices, 1 pass", "ddp on 2 devices, 4 passes, sync once",
                          "ddp on 2 devices, 4 passes, sync in every pass"));
}

TEST(Matrix, StalenessMultipliesAsynchronousServersAlone) {
  EXPECT_THAT(
      titles({"--strategy=ddp,ps", "--gpus=2", "--ps-mode=sync,async", "--max-staleness=0,4"}),
      ElementsAre("ddp on 2 devices", "ps on 2 devices and 1 server, sync servers",
                  "ps on 2 devices and 1 server, async servers, 0 steps ahead at most",
                  "ps on 2 devices and 1 server, async servers, 4 steps ahead at most"));
}

TEST(Matrix, HooksMultiplyDdpAlone) {
  EXPECT_THAT(
      titles({"--strategy=single,ddp,zero1", "--gpus=2", "--comm-hook=fp16,none,topk:1"}),
      ElementsAre("single on 1 device", "ddp on 2 devices, hook fp16", "ddp on 2 devices, no hook",
                  "ddp on 2 devices, hook topk:1", "zero1 on 2 devices"));
}

TEST(Matrix, RefusesAValueOfASpecialOptionThatNoRunUses) {
  const auto refusal_of = [](const std::vector<std::string>& words) -> std::string {
    try {
      check_axes(options_of(words));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal_of({"--strategy=zero1", "--gpus=2", "--accumulation-steps=2",
                        "--accumulation-sync=every"}),
            "--accumulation-sync=every: no run of --strategy=zero1 has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=zero1,ddp", "--gpus=2", "--accumulation-steps=2",
                        "--accumulation-sync=every"}),
            "");
  EXPECT_EQ(refusal_of({"--strategy=zero1", "--gpus=2", "--accumulation-sync=last"}), "");
  for (const std::string hook : {"topk:1", "powersgd:2"}) {
    const std::vector<std::string> every = {"--strategy=single,ddp", "--gpus=2",
                                            "--accumulation-steps=2", "--accumulation-sync=every"};
    std::vector<std::string> refused = every, listed = every;
    refused.push_back("--comm-hook=" + hook);
    listed.push_back("--comm-hook=int8," + hook);
    EXPECT_EQ(refusal_of(refused),
              "--accumulation-sync=every does not go with --comm-hook=topk:P or powersgd:R");
    EXPECT_EQ(refusal_of(listed), "");
    EXPECT_THAT(titles(listed), ElementsAre("single on 1 device", "ddp on 2 devices, hook int8",
                                            "ddp on 2 devices, hook " + hook));
  }
  EXPECT_EQ(refusal_of({"--strategy=ps,dp", "--gpus=2", "--comm-hook=none,fp16"}),
            "--comm-hook=fp16: no run of --strategy=dp,ps has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=ddp", "--gpus=2", "--ps-mode=async"}),
            "--ps-mode=async: no run of --strategy=ddp has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=ps", "--gpus=2", "--max-staleness=2"}),
            "--max-staleness=2 needs --ps-mode=async");
  EXPECT_EQ(refusal_of({"--strategy=ddp", "--gpus=2", "--max-staleness=2"}),
            "--max-staleness=2: no run of --strategy=ddp has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=ps", "--gpus=3", "--ps-mode=async", "--backup-workers=1"}),
            "--backup-workers=1 does not go with --ps-mode=async");
  EXPECT_EQ(refusal_of({"--strategy=zero1,ps", "--sync-every=4"}),
            "--sync-every=4: no run of --strategy=ps,zero1 has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=single,dp", "--gpus=2", "--emulate-link=1Gbit,50us"}),
            "--emulate-link=1Gbit,50us: no run of --strategy=dp,single has a use for it");
  EXPECT_EQ(refusal_of({"--strategy=dp,ddp", "--gpus=2", "--emulate-link=1Gbit,50us"}), "");
  // It has no effect on one device, in one pass, or before a launcher says how many ranks there
  // are.
  EXPECT_EQ(refusal_of({"--strategy=localsgd", "--sync-every=2"}), "");
  EXPECT_EQ(refusal_of({"--strategy=ddp", "--accumulation-sync=every"}), "");
  // Entries of a list of runs share values that only some of them use.
  Options list = options_of({"--strategy=localsgd", "--sync-every=2"});
  list.runs = {options_of({"--strategy=ddp", "--sync-every=2"}), list};
  EXPECT_NO_THROW(check_axes(list));
  list.runs.pop_back();
  EXPECT_THROW(check_axes(list), ConfigError);
}

// What is gathered is not all-reduced, by whichever algorithm.
TEST(Matrix, AllReducesMultiplyTheHooksThatUseThem) {
  EXPECT_THAT(
      titles({"--strategy=ddp", "--gpus=2", "--comm-hook=fp16,int8", "--all-reduce=ring,direct"}),
      ElementsAre("ddp on 2 devices, hook fp16, all reduce ring",
                  "ddp on 2 devices, hook fp16, all reduce direct", "ddp on 2 devices, hook int8"));
}

TEST(Matrix, LoaderWorkersMultiplyAllStrategies) {
  EXPECT_THAT(
      titles({"--strategy=single,ps", "--gpus=2", "--loader-workers=1,4"}),
      ElementsAre("single on 1 device, loader workers 1", "single on 1 device, loader workers 4",
                  "ps on 2 devices and 1 server, loader workers 1",
                  "ps on 2 devices and 1 server, loader workers 4"));
  EXPECT_THAT(refusal({"--loader-workers=1,4", "--residency=device"}),
              HasSubstr("give one number"));
}

TEST(Matrix, DevicesPerProcessMultiplyDdpAlone) {
  const auto cells = plan_matrix(
      options_of({"--strategy=single,dp,ddp,ps", "--gpus=4", "--devices-per-process=2,4"}));
  ASSERT_EQ(cells.size(), 5u);
  for (const RunCell& cell : cells) {
    EXPECT_EQ(cell.devices_per_process > 1, cell.strategy == "ddp") << cell.strategy;
  }
  EXPECT_EQ(cells[2].devices_per_process, 2);
  EXPECT_EQ(cells[3].devices_per_process, 4);
}

TEST(Matrix, CellsHoldTheirValues) {
  const auto cells =
      plan_matrix(options_of({"--strategy=ddp", "--gpus=4", "--global-batch-size=64,128",
                              "--first-bucket-mb=0.5", "--bucket-cap-mb=2,3", "--overlap=off"}));
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[3].world_size, 4);
  EXPECT_EQ(cells[3].global_batch_size, 128);
  EXPECT_EQ(cells[3].first_bucket_mb, 0.5);
  EXPECT_EQ(cells[3].bucket_cap_mb, 3);
  EXPECT_FALSE(cells[3].overlap);
  EXPECT_EQ(cells[3].servers, 0);
}

TEST(Matrix, AllGpusIsOneCountUntilItIsKnown) {
  EXPECT_EQ(
      plan_matrix(options_of({"--strategy=ddp,ps", "--gpus=all", "--bucket-cap-mb=1,2"})).size(),
      3u);
}

TEST(Lists, AreAllOptionsThatTakeSeveralValues) {
  std::set<std::string> lists, axes;
  for (const OptionDefinition& option : option_table()) {
    if (option.is_list() && option.applies_to(Command::run)) lists.insert(option.name);
  }
  for (const SweepAxis& axis : sweep_axes()) axes.insert(axis.option);
  EXPECT_EQ(axes, lists);
}

TrainingJob job_of(const Options& options, const RunCell& cell) {
  data::DatasetInfo dataset;
  dataset.train_samples = 1000;
  HostDevices host;
  host.cpu.cores = {0, 1};
  return make_training_job(options, cell, dataset, {"model.json", "net", "1234"}, host);
}

// Returns what a rank reads of the job of this cell.
TrainingJob received(const Options& options, const RunCell& cell) {
  return training_job_from_json(to_json(job_of(options, cell)));
}

TEST(JobOfACell, TellsARankEveryListedValueOnce) {
  const Options options = options_of({"--strategy=single,ps,ddp", "--gpus=1,2", "--batch-size=8,16",
                                      "--servers=2,3", "--overlap=on,off", "--first-bucket-mb=1,2",
                                      "--bucket-cap-mb=1,2", "--ps-update=server,worker"});
  for (const RunCell& cell : plan_matrix(options)) {
    const nlohmann::json json = to_json(job_of(options, cell));
    for (const SweepAxis& axis : sweep_axes()) {
      const std::string name =
          std::string(axis.option) == "gpus" ? "world_size" : with_underscores(axis.option);
      EXPECT_TRUE(json.at("cell").contains(name)) << axis.option;
      EXPECT_FALSE(json.at("options").contains(with_underscores(axis.option))) << axis.option;
    }
    EXPECT_EQ(received(options, cell).cell, cell);
  }
}

TEST(JobOfACell, HandsOnWhatAllRunsShare) {
  const Options options = options_of({"--strategy=ddp", "--gpus=2,4", "--seed=7", "--lr=0.25"});
  const TrainingJob job = received(options, plan_matrix(options)[0]);
  EXPECT_EQ(job.options, static_cast<const RunOptions&>(options));
}

TEST(JobOfACell, KeepsTheScalingMode) {
  const Options options = options_of({"--strategy=ddp", "--gpus=2", "--global-batch-size=8,16"});
  const TrainingJob strong = received(options, plan_matrix(options)[1]);
  EXPECT_TRUE(strong.cell.is_strong());
  EXPECT_EQ(strong.cell.global_batch_size, 16);
  EXPECT_EQ(strong.per_device_batch, 8);
  const Options weak = options_of({"--strategy=ddp", "--gpus=2", "--batch-size=8"});
  EXPECT_FALSE(received(weak, plan_matrix(weak)[0]).cell.is_strong());
}

TEST(Reference, IsSharedByRunsOfOneWorldAndBatchAlone) {
  const Options options =
      options_of({"--strategy=dp,ddp", "--gpus=2,4", "--batch-size=8,16", "--lr-scaling=linear"});
  std::map<std::string, int> shares;
  for (const RunCell& cell : plan_matrix(options)) ++shares[reference_key(job_of(options, cell))];
  EXPECT_EQ(shares.size(), 4u);
  for (const auto& [key, runs] : shares) EXPECT_EQ(runs, 2);
}

TEST(Reference, OfAGlobalBatchDependsOnWhatADeviceGets) {
  const Options options = options_of({"--strategy=ddp", "--gpus=2,4", "--global-batch-size=16,32"});
  std::map<std::string, int> shares;
  for (const RunCell& cell : plan_matrix(options)) ++shares[reference_key(job_of(options, cell))];
  EXPECT_EQ(shares.size(), 4u);
}

}  // namespace
}  // namespace ddpbench::bench
