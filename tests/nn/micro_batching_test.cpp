// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The size and extent of the part that runs in micro-batches.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/nn/plan/fusion.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

TEST(MicroBatch, IsTheLargestDivisorWithinTheHint) {
  EXPECT_EQ(choose_micro_batch(256, 8), 8);
  EXPECT_EQ(choose_micro_batch(256, 15), 8);
  EXPECT_EQ(choose_micro_batch(96, 15), 12);
  EXPECT_EQ(choose_micro_batch(250, 8), 5);
}

TEST(MicroBatch, IsOffWhenTheDeviceGainsNothing) { EXPECT_EQ(choose_micro_batch(256, 0), 0); }

TEST(MicroBatch, IsOffWhenTheBatchFits) {
  EXPECT_EQ(choose_micro_batch(8, 8), 0);
  EXPECT_EQ(choose_micro_batch(1, 8), 0);
}

TEST(MicroBatch, IsOffWhenOnlyTinyDivisorsFit) {
  EXPECT_EQ(choose_micro_batch(257, 16), 0);
  EXPECT_EQ(choose_micro_batch(62, 16), 0);
}

TEST(MicroBatching, EndsBeforeTheFirstLinearLayer) {
  const auto backend = ops::make_reference_backend();
  const ModelSpec model = simple_cnn();
  const MicroBatching micro = choose_micro_batching(model, fuse_layers(model), *backend, 32, 8);
  EXPECT_EQ(micro.nodes, 4u);  // two convolutions and two pools
  EXPECT_EQ(micro.micro_batch, 8);
}

TEST(MicroBatching, OfTheWholeBatchIsNone) {
  const auto backend = ops::make_reference_backend();
  const ModelSpec model = simple_cnn();
  EXPECT_EQ(choose_micro_batching(model, fuse_layers(model), *backend, 32, 32).nodes, 0u);
  EXPECT_EQ(choose_micro_batching(model, fuse_layers(model), *backend, 32, 0).nodes, 0u);
}

TEST(MicroBatching, RefusesAMicroBatchThatDoesNotDivideTheBatch) {
  const auto backend = ops::make_reference_backend();
  const ModelSpec model = simple_cnn();
  try {
    choose_micro_batching(model, fuse_layers(model), *backend, 32, 7);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "the micro-batch 7 does not divide the batch 32; take a divisor, or 0");
  }
}

}  // namespace
}  // namespace ddpbench::nn
