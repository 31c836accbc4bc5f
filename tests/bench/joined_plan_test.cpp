// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks compare before they train together.
#include "bench/joined/joined_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ddpbench::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const launch::RankEnvironment kPair{.rank = 0, .world_size = 2};

Options small_options() {
  Options options;
  options.model = "lenet5";
  options.batch_sizes = {8};
  return options;
}

std::string difference(const Options& one, const Options& other) {
  return disagreement(1, plan_json(option_values(one, kPair)), 0,
                      plan_json(option_values(other, kPair)));
}

TEST(JoinedPlan, EqualOptionsAgree) { EXPECT_EQ(difference(small_options(), small_options()), ""); }

TEST(JoinedPlan, NamesTheOptionThatDiffersWithBothValuesAndRanks) {
  Options other = small_options();
  other.lr = 0.5;
  EXPECT_EQ(difference(other, small_options()), "--lr is 0.5 on rank 1 but 0.01 on rank 0");
}

TEST(JoinedPlan, NoticesEachOptionThatInfluencesWhatIsComputedOrMeasured) {
  const std::vector<std::function<void(Options&)>> changes = {
      [](Options& o) { o.strategies = {"ps"}; },
      [](Options& o) { o.batch_sizes = {16}; },
      [](Options& o) { o.epochs = 2; },
      [](Options& o) { o.steps = 7; },
      [](Options& o) { o.seed = 2; },
      [](Options& o) { o.momentum = 0.5; },
      [](Options& o) { o.weight_decay = 0.5; },
      [](Options& o) { o.lr_scaling = "linear"; },
      [](Options& o) { o.last_batch = "drop"; },
      [](Options& o) { o.precision = "fp32"; },
      [](Options& o) { o.verify_steps = 0; },
      [](Options& o) { o.warmup_steps = 3; },
      [](Options& o) { o.overlaps = {false}; },
      [](Options& o) { o.bucket_caps_mb = {5}; },
      [](Options& o) { o.all_reduces = {"ring"}; },
      [](Options& o) { o.devices_per_process = {2}; },
      [](Options& o) { o.server_counts = {2}; },
      [](Options& o) { o.ps_updates = {"worker"}; },
      [](Options& o) { o.threads_per_device = 2; },
      [](Options& o) { o.loader_workers = {0}; },
      [](Options& o) { o.observe = false; },
      [](Options& o) { o.trace_path = "trace.json"; },
      [](Options& o) { o.model = "simple_cnn"; },
      [](Options& o) { o.dataset = "fashion_mnist"; },
      [](Options& o) { o.dataset_std = PerChannel{{0.5}}; },
      [](Options& o) { o.injections = {{.kind = "sum", .text = "sum"}}; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Options other = small_options();
    changes[i](other);
    EXPECT_NE(difference(other, small_options()), "") << i;
  }
}

TEST(JoinedPlan, LeavesFilesAndOutputToEachRank) {
  Options other = small_options();
  other.json_path = "other.json";
  other.data_dir = "/elsewhere";
  other.quiet = other.force = true;
  other.config_path = "copy.json";
  EXPECT_EQ(difference(other, small_options()), "");
}

TEST(JoinedPlan, NoticesADifferentWorldSize) {
  const launch::RankEnvironment triple{.rank = 1, .world_size = 3};
  EXPECT_EQ(disagreement(1, plan_json(option_values(small_options(), triple)), 0,
                         plan_json(option_values(small_options(), kPair))),
            "WORLD_SIZE is 3 on rank 1 but 2 on rank 0");
}

TEST(JoinedPlan, ComparesWhatTheOptionsResolvedToButNotWhatIsARanksOwn) {
  TrainingJob job;
  job.per_device_batch = 8;
  job.backend = "shm";
  job.dataset.name = "mnist";
  job.dataset.train_samples = 100;
  const auto values = [](const TrainingJob& one) {
    return plan_json(job_values(one, {.ranks = 2, .step_capacity = 4}));
  };
  TrainingJob other = job;
  other.cores = {{1}, {2}};
  other.dataset.directory = "/elsewhere";
  EXPECT_EQ(disagreement(1, values(other), 0, values(job)), "");
  other.dataset.train_samples = 99;
  EXPECT_EQ(disagreement(1, values(other), 0, values(job)),
            "dataset/train_samples is 99 on rank 1 but 100 on rank 0");
  other.dataset.source = "files";
  EXPECT_THAT(disagreement(1, values(other), 0, values(job)),
              StartsWith("the data set is mnist from files on rank 1 but mnist drawn"));
  EXPECT_NE(plan_json(job_values(job, {.ranks = 2, .step_capacity = 5})), values(job));
}

}  // namespace
}  // namespace ddpbench::bench
