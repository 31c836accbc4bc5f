// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy of the CUDA backend against the reference.
#include <limits>

#include "base/error.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

using CudaSoftmaxCrossEntropy = CudaOps;

struct Batch {
  std::int64_t batch, classes, samples;
  Values logits;
  std::vector<std::int32_t> labels;
};

Batch make_batch(std::int64_t batch, std::int64_t classes, std::int64_t samples) {
  Batch b{batch, classes, samples, random_values(batch * classes, 1), {}};
  for (float& v : b.logits) v *= 8;
  for (std::int64_t n = 0; n < batch; ++n)
    b.labels.push_back(static_cast<std::int32_t>(n * 7 % classes));
  return b;
}

// Some have more classes than lanes, some as many as stay in shared memory, some more. The last has
// so many blocks of rows that all threads of the final sum take four parts at once, some one more.
std::vector<Batch> batches() {
  return {make_batch(1, 1, 1),      make_batch(1, 10, 1),
          make_batch(5, 3, 5),      make_batch(7, 10, 4),
          make_batch(4, 10, 0),     make_batch(1000, 10, 1000),
          make_batch(256, 10, 256), make_batch(257, 32, 200),
          make_batch(9, 33, 9),     make_batch(61, 311, 60),
          make_batch(9, 1000, 9),   make_batch(3, 1024, 2),
          make_batch(10, 1500, 9),  make_batch(8 * 5000 + 3, 33, 8 * 5000 + 1)};
}

struct Result {
  LossTotals totals;
  Values gradient;
};

// Adds to totals that are not zero.
Result run(BackendFixture& fixture, const Batch& b, float grad_scale, bool recorded = false) {
  const OpMemory logits = fixture.upload(b.logits), labels = fixture.upload(b.labels);
  const OpMemory gradient = fixture.allocate(b.logits.size() * sizeof(float));
  const LossTotals before{2.5, 3, 4};
  const OpMemory totals = fixture.upload(&before, sizeof(before));
  const auto op = fixture.backend().softmax_cross_entropy(b.batch, b.classes);
  const LossArgs args{.logits = reinterpret_cast<const float*>(logits.data()),
                      .labels = reinterpret_cast<const std::int32_t*>(labels.data()),
                      .samples = b.samples,
                      .grad_scale = grad_scale,
                      .grad_logits = reinterpret_cast<float*>(gradient.data()),
                      .totals = reinterpret_cast<LossTotals*>(totals.data())};
  if (recorded) {
    fixture.stream().begin_recording();
    op->run(fixture.stream(), args);
    fixture.stream().end_recording()->replay(fixture.stream());
  } else {
    op->run(fixture.stream(), args);
  }
  Result result{.totals = {}, .gradient = fixture.download<float>(gradient)};
  fixture.download(totals, &result.totals);
  return result;
}

TEST_F(CudaSoftmaxCrossEntropy, EqualsTheReference) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const Batch& b : batches()) {
    SCOPED_TRACE(to_string(Shape{b.batch, b.classes, b.samples}));
    const Result want = run(plain, b, 0.25F), got = run(fixture, b, 0.25F);
    // A float sum of `classes` exponentials, each within a few eps, and x - max within eps of 16.
    const double tolerance = kEpsilon * static_cast<double>(b.classes + 16);
    EXPECT_NEAR(got.totals.loss_sum, want.totals.loss_sum,
                tolerance * static_cast<double>(b.samples));
    EXPECT_EQ(got.totals.correct, want.totals.correct);
    EXPECT_EQ(got.totals.samples, want.totals.samples);
    EXPECT_TRUE(all_near(got.gradient, want.gradient, 0.25 * tolerance));
  }
}

TEST_F(CudaSoftmaxCrossEntropy, RepeatsItsBitsAlsoWhenRecorded) {
  BackendFixture fixture = cuda_backend();
  for (const Batch& b : batches()) {
    const Result first = run(fixture, b, 1);
    for (const bool recorded : {false, true}) {
      const Result again = run(fixture, b, 1, recorded);
      EXPECT_EQ(again.totals.loss_sum, first.totals.loss_sum);
      EXPECT_TRUE(same_bits(again.gradient, first.gradient));
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropy, CountsTheFirstOfEqualLargestLogits) {
  BackendFixture fixture = cuda_backend();
  const Batch b = {3, 3, 3, {1, 1, 0, 1, 1, 0, 0, 2, 1}, {0, 0, 1}};
  EXPECT_EQ(run(fixture, b, 1).totals.correct, 3U + 3U);
  // Equal values in different lanes, and in one lane.
  Batch wide = {2, 70, 2, Values(140), {33, 3}};
  wide.logits[33] = wide.logits[40] = 5;
  wide.logits[70 + 3] = wide.logits[70 + 35] = 5;
  EXPECT_EQ(run(fixture, wide, 1).totals.correct, 3U + 2U);
}

TEST_F(CudaSoftmaxCrossEntropy, SurvivesLogitsWhoseExponentialOverflows) {
  BackendFixture fixture = cuda_backend();
  const Result got = run(fixture, {2, 2, 2, {1000, 0, -1000, 0}, {0, 0}}, 1);
  EXPECT_EQ(got.totals.loss_sum, 1002.5);
  EXPECT_EQ(got.gradient, (Values{0, 0, -1, 1}));
}

TEST_F(CudaSoftmaxCrossEntropy, RefusesNoClasses) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().softmax_cross_entropy(2, 0), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
