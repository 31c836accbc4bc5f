// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/session.h"
#include "kernels/nn/model/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace ddpbench::bench {
namespace {

using ::testing::ElementsAre;

// Gradients come from fc2 (weight 40 x 100, bias 40), then fc1 (100 x 784, bias 100), then conv.
nn::ModelSpec model() {
  return nn::parse_model(R"({"name": "m", "input": [1, 28, 28], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 1, "kernel": 3, "padding": 1},
      {"name": "fc1", "type": "linear", "out_features": 100},
      {"name": "relu", "type": "relu"},
      {"name": "fc2", "type": "linear", "out_features": 40}]})",
                         "m.json");
}

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

TEST(BucketBytes, HoldEveryGradientOnceWhateverTheCaps) {
  const auto one = bucket_bytes(model(), 25, 25);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_GE(one[0], static_cast<std::size_t>(model().parameter_count()) * 4);
  EXPECT_EQ(sum(bucket_bytes(model(), 1e-6, 1e-6)), one[0]);
  EXPECT_EQ(bucket_bytes(model(), 1e-6, 1e-6).size(), 6u);
}

TEST(BucketBytes, HoldTheGradientsOfBatchNorm) {
  const nn::ModelSpec normalized = nn::parse_model(R"({"name": "m", "input": [1, 8, 8], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 16, "kernel": 3, "bias": false},
      {"name": "bn", "type": "batch_norm2d"},
      {"name": "fc", "type": "linear", "out_features": 4}]})",
                                                   "m.json");
  EXPECT_EQ(bucket_bytes(normalized, 1e-6, 1e-6).size(), 5u);  // two of fc, two of bn, one of conv
}

TEST(BucketBytes, BeginWithTheLastLayer) {
  // The first bucket closes with fc2's weight: the bias's 160 bytes take three cache lines, and the
  // weight has 16000 bytes.
  EXPECT_EQ(bucket_bytes(model(), 0.01, 25).front(), 192u + 16000u);
}

TEST(TuneLists, PutTheDefaultsFirst) {
  Options options;
  options.first_buckets_mb = {4, 1};
  options.bucket_caps_mb = {};
  options.overlaps = {false};
  fill_tune_lists(options, model());
  EXPECT_THAT(options.first_buckets_mb, ElementsAre(1, 4));
  EXPECT_EQ(options.bucket_caps_mb.front(), 25);
  EXPECT_GT(options.bucket_caps_mb.size(), 1u);
  EXPECT_THAT(options.overlaps, ElementsAre(true, false));
}

class Settings : public testing::Test {
 protected:
  Settings() {
    options.strategies = {"ddp"};
    options.gpus = {2};
    options.batch_sizes = {8};
    options.first_buckets_mb.clear();
    options.bucket_caps_mb.clear();
    options.overlaps.clear();
    fill_tune_lists(options, model());
    cells = plan_matrix(options);
  }
  Options options;
  std::vector<RunCell> cells;
};

TEST_F(Settings, BeginWithTheDefault) {
  const auto chosen = distinct_settings(cells, model());
  ASSERT_GT(chosen.size(), 2u);
  EXPECT_EQ(cells[chosen[0]].first_bucket_mb, 1);
  EXPECT_EQ(cells[chosen[0]].bucket_cap_mb, 25);
  EXPECT_TRUE(cells[chosen[0]].overlap);
}

TEST_F(Settings, CutTheGradientsDifferently) {
  std::set<std::pair<bool, std::vector<std::size_t>>> cuts;
  const auto chosen = distinct_settings(cells, model());
  for (const std::size_t i : chosen) {
    cuts.insert({cells[i].overlap,
                 bucket_bytes(model(), cells[i].first_bucket_mb, cells[i].bucket_cap_mb)});
  }
  EXPECT_EQ(cuts.size(), chosen.size());
  EXPECT_LT(chosen.size(), cells.size());
}

TEST_F(Settings, WithoutOverlapAreFew) {
  const auto chosen = distinct_settings(cells, model());
  const auto without =
      std::ranges::count_if(chosen, [&](std::size_t i) { return !cells[i].overlap; });
  EXPECT_GE(without, 1);
  EXPECT_LE(without, 2);
}

}  // namespace
}  // namespace ddpbench::bench
