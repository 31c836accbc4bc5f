// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy of both backends against a naive computation in double precision.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

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

struct Result {
  LossTotals totals;
  Values gradient;
};

Result run(BackendFixture& fixture, const Batch& b, float grad_scale) {
  Result r;
  r.gradient.assign(b.logits.size(), std::numeric_limits<float>::quiet_NaN());
  fixture.backend()
      .softmax_cross_entropy(b.batch, b.classes)
      ->run(fixture.stream(), {.logits = b.logits.data(),
                               .labels = b.labels.data(),
                               .samples = b.samples,
                               .grad_scale = grad_scale,
                               .grad_logits = r.gradient.data(),
                               .totals = &r.totals});
  return r;
}

double naive_loss(const Batch& b, std::int64_t n) {
  double sum = 0;
  const float* x = b.logits.data() + n * b.classes;
  for (std::int64_t j = 0; j < b.classes; ++j) sum += std::exp(static_cast<double>(x[j]));
  return std::log(sum) - x[b.labels[static_cast<std::size_t>(n)]];
}

double naive_gradient(const Batch& b, std::int64_t n, std::int64_t j) {
  const float* x = b.logits.data() + n * b.classes;
  double sum = 0;
  for (std::int64_t k = 0; k < b.classes; ++k) sum += std::exp(static_cast<double>(x[k]));
  return std::exp(static_cast<double>(x[j])) / sum -
         (j == b.labels[static_cast<std::size_t>(n)] ? 1 : 0);
}

// The last batch is long enough to be split over a team.
std::vector<Batch> batches() {
  return {make_batch(1, 1, 1),  make_batch(1, 10, 1), make_batch(5, 3, 5),
          make_batch(7, 10, 4), make_batch(4, 10, 0), make_batch(61, 311, 60)};
}

TEST(SoftmaxCrossEntropy, SumsTheLossesOfTheSamplesThatCount) {
  for (BackendFixture& fixture : all_backends())
    for (const Batch& b : batches()) {
      double want = 0;
      for (std::int64_t n = 0; n < b.samples; ++n) want += naive_loss(b, n);
      const Result got = run(fixture, b, 1);
      // The error of each loss: a float sum of `classes` exponentials, each within a few eps, and x
      // - max within eps of 16.
      const double per_sample = kEpsilon * static_cast<double>(b.classes + 16);
      EXPECT_NEAR(got.totals.loss_sum, want, per_sample * static_cast<double>(b.samples));
      EXPECT_EQ(got.totals.samples, static_cast<std::uint64_t>(b.samples));
    }
}

TEST(SoftmaxCrossEntropy, WritesTheScaledGradientAndZerosPastTheSamples) {
  constexpr float kScale = 0.25F;
  for (BackendFixture& fixture : all_backends())
    for (const Batch& b : batches()) {
      const Result got = run(fixture, b, kScale);
      const double tolerance = kScale * kEpsilon * static_cast<double>(b.classes + 16);
      for (std::int64_t n = 0; n < b.batch; ++n)
        for (std::int64_t j = 0; j < b.classes; ++j) {
          const float g = got.gradient[static_cast<std::size_t>(n * b.classes + j)];
          if (n < b.samples)
            EXPECT_NEAR(g, kScale * naive_gradient(b, n, j), tolerance);
          else
            EXPECT_EQ(g, 0);
        }
    }
}

// Third derivatives of log-sum-exp are at most 0.1, so the truncation error is below h^2 / 60.
TEST(SoftmaxCrossEntropy, GradientEqualsFiniteDifferencesOfTheLoss) {
  constexpr float kStep = 0x1p-7F;
  BackendFixture fixture = BackendFixture::reference();
  Batch b = make_batch(3, 4, 3);
  for (float& v : b.logits) v = std::round(v * 64) / 64;  // so that v +- h is exact
  const Result at = run(fixture, b, 1);
  for (std::size_t k = 0; k < b.logits.size(); ++k) {
    const float value = b.logits[k];
    b.logits[k] = value + kStep;
    const double above = run(fixture, b, 1).totals.loss_sum;
    b.logits[k] = value - kStep;
    const double below = run(fixture, b, 1).totals.loss_sum;
    b.logits[k] = value;
    EXPECT_NEAR(at.gradient[k], (above - below) / (2 * kStep), kStep * kStep / 60 + kEpsilon);
  }
}

TEST(SoftmaxCrossEntropy, CountsTheFirstOfEqualLargestLogits) {
  for (BackendFixture& fixture : all_backends()) {
    const Batch b = {3, 3, 3, {1, 1, 0, 1, 1, 0, 0, 2, 1}, {0, 0, 1}};
    EXPECT_EQ(run(fixture, b, 1).totals.correct, 3U);
  }
}

TEST(SoftmaxCrossEntropy, AddsToTheTotalsAndWorksWithoutAGradient) {
  for (BackendFixture& fixture : all_backends()) {
    const Batch b = make_batch(5, 10, 5);
    const LossTotals once = run(fixture, b, 1).totals;
    LossTotals totals = once;
    fixture.backend().softmax_cross_entropy(5, 10)->run(
        fixture.stream(),
        {.logits = b.logits.data(), .labels = b.labels.data(), .samples = 5, .totals = &totals});
    // Double additions in another order: five roundings of a sum below 100.
    EXPECT_NEAR(totals.loss_sum, 2 * once.loss_sum, 1e-12);
    EXPECT_EQ(totals.correct, 2 * once.correct);
    EXPECT_EQ(totals.samples, 10U);
  }
}

TEST(SoftmaxCrossEntropy, SurvivesLogitsWhoseExponentialOverflows) {
  for (BackendFixture& fixture : all_backends()) {
    const Batch b = {2, 2, 2, {1000, 0, -1000, 0}, {0, 0}};
    const Result got = run(fixture, b, 1);
    EXPECT_EQ(got.totals.loss_sum, 1000);
    EXPECT_EQ(got.gradient, (Values{0, 0, -1, 1}));
  }
}

TEST(SoftmaxCrossEntropy, RefusesNoClasses) {
  for (BackendFixture& fixture : all_backends())
    EXPECT_THROW(fixture.backend().softmax_cross_entropy(2, 0), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
