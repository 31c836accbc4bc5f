// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy of the CUDA backend against the reference.
#include "base/error.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/loss_batches.h"

namespace ddpbench::ops::testing {
namespace {

using CudaSoftmaxCrossEntropy = CudaOps;

struct LossSizes {
  std::int64_t batch, classes, samples, positions = 1;
};

// Some have more classes than lanes, some as many as stay in shared memory, some more. The last
// rows have so many blocks that all threads of the final sum take four parts at once, some one
// more. The maps have less than a block of pixels, and several.
constexpr LossSizes kLossSizes[] = {{1, 1, 1},        {1, 10, 1},
                                    {5, 3, 5},        {7, 10, 4},
                                    {4, 10, 0},       {1000, 10, 1000},
                                    {256, 10, 256},   {257, 32, 200},
                                    {9, 33, 9},       {61, 311, 60},
                                    {9, 1000, 9},     {3, 1024, 2},
                                    {10, 1500, 9},    {8 * 5000 + 3, 33, 8 * 5000 + 1},
                                    {1, 1, 1, 2},     {2, 3, 2, 35},
                                    {3, 21, 2, 1100}, {2, 40, 2, 128}};

std::vector<LossBatch> batches() {
  std::vector<LossBatch> all;
  for (const LossSizes& sizes : kLossSizes) {
    const CrossEntropyDesc plain{
        .batch = sizes.batch, .classes = sizes.classes, .positions = sizes.positions};
    all.push_back(make_loss_batch(plain, sizes.samples));
    CrossEntropyDesc described = plain;
    described.label_smoothing = 0.1;
    described.ignore_index = 2;
    all.push_back(make_loss_batch(described, sizes.samples));
    described.ignore_index = 255;  // of few classes none
    described.weight = 0.4;
    described.counts_hits = false;
    all.push_back(make_loss_batch(described, sizes.samples));
  }
  return all;
}

// The totals are not zero before.
const LossRun kScaledRun = {.grad_scale = 0.25F, .valid_weight = 1.5F, .before = {2.5, 3, 4}};

std::string batch_name(const LossBatch& b) {
  return to_string(Shape{b.desc.batch, b.desc.classes, b.desc.positions, b.samples});
}

TEST_F(CudaSoftmaxCrossEntropy, EqualsTheReference) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const LossBatch& b : batches()) {
    SCOPED_TRACE(batch_name(b));
    const LossResult want = run_loss(plain, b, kScaledRun), got = run_loss(fixture, b, kScaledRun);
    const auto predictions = static_cast<double>(b.samples * b.desc.positions);
    EXPECT_NEAR(got.totals.loss_sum, want.totals.loss_sum, loss_tolerance(b) * predictions);
    EXPECT_EQ(got.totals.correct, want.totals.correct);
    EXPECT_EQ(got.totals.counted, want.totals.counted);
    EXPECT_EQ(got.predicted, want.predicted);
    EXPECT_TRUE(all_near(got.gradient, want.gradient, 0.25 * 1.5 * loss_tolerance(b)));
  }
}

TEST_F(CudaSoftmaxCrossEntropy, RoundsTheScaleLastWhereTheGradientNearlyVanishes) {
  BackendFixture fixture = cuda_backend();
  for (const LossBatch& b : batches()) {
    SCOPED_TRACE(batch_name(b));
    expect_scale_is_rounded_last(fixture, b);
  }
}

TEST_F(CudaSoftmaxCrossEntropy, RepeatsItsBitsAlsoWhenRecorded) {
  BackendFixture fixture = cuda_backend();
  for (const LossBatch& b : batches()) {
    const LossResult first = run_loss(fixture, b, kScaledRun);
    for (const bool recorded : {false, true}) {
      LossRun how = kScaledRun;
      how.recorded = recorded;
      const LossResult again = run_loss(fixture, b, how);
      EXPECT_EQ(again.totals.loss_sum, first.totals.loss_sum);
      EXPECT_TRUE(same_bits(again.gradient, first.gradient));
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropy, CountsTheFirstOfEqualLargestLogits) {
  BackendFixture fixture = cuda_backend();
  const LossBatch b = {{.batch = 3, .classes = 3}, 3, {1, 1, 0, 1, 1, 0, 0, 2, 1}, {0, 0, 1}};
  EXPECT_EQ(run_loss(fixture, b).totals.correct, 3U);
  const LossBatch map = {
      {.batch = 1, .classes = 3, .positions = 3}, 1, {1, 1, 0, 1, 1, 2, 0, 0, 1}, {0, 0, 1}};
  EXPECT_EQ(run_loss(fixture, map).totals.correct, 3U);
  // Equal values in different lanes, and in one lane.
  LossBatch wide = {{.batch = 2, .classes = 70}, 2, Values(140), {33, 3}};
  wide.logits[33] = wide.logits[40] = 5;
  wide.logits[70 + 3] = wide.logits[70 + 35] = 5;
  EXPECT_EQ(run_loss(fixture, wide).totals.correct, 2U);
}

TEST_F(CudaSoftmaxCrossEntropy, SurvivesLogitsWhoseExponentialOverflows) {
  BackendFixture fixture = cuda_backend();
  const LossBatch rows = {{.batch = 2, .classes = 2}, 2, {1000, 0, -1000, 0}, {0, 0}};
  const LossResult got = run_loss(fixture, rows);
  EXPECT_EQ(got.totals.loss_sum, 1000);
  EXPECT_EQ(got.gradient, (Values{0, 0, -1, 1}));
  const LossBatch map = {
      {.batch = 1, .classes = 2, .positions = 2}, 1, {1000, -1000, 0, 0}, {0, 0}};
  const LossResult of_map = run_loss(fixture, map);
  EXPECT_EQ(of_map.totals.loss_sum, 1000);
  EXPECT_EQ(of_map.gradient, (Values{0, -1, 0, 1}));
}

TEST_F(CudaSoftmaxCrossEntropy, KeepsTheFirstStepWhoseLossIsNotFinite) {
  BackendFixture fixture = cuda_backend();
  for (const LossSizes& sizes : kLossSizes) {
    if (sizes.samples != sizes.batch || sizes.classes == 1) continue;
    const LossBatch b = make_loss_batch(
        {.batch = sizes.batch, .classes = sizes.classes, .positions = sizes.positions},
        sizes.samples);
    SCOPED_TRACE(batch_name(b));
    expect_first_diverged_step_is_kept(fixture, b);
  }
}

TEST_F(CudaSoftmaxCrossEntropy, RefusesNoClasses) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().loss(fixture.stream(), {.batch = 2, .classes = 0}, {}),
               ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
