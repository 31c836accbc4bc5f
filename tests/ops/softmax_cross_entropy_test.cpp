// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy of both backends against a naive computation in double precision.
#include <cmath>

#include "base/error.h"
#include "tests/ops/loss_batches.h"

namespace ddpbench::ops::testing {
namespace {

// The last ones are long enough to be split over a team. Maps have whole blocks of 64 pixels, less
// than one, and one more; more classes than bits of a byte; and labels that are no class.
std::vector<LossBatch> batches() {
  std::vector<LossBatch> all;
  const auto add = [&](const CrossEntropyDesc& desc, std::int64_t samples) {
    all.push_back(make_loss_batch(desc, samples));
  };
  for (const double s : {0.0, 0.1, 1.0}) {
    for (const std::int32_t ignored : {kIgnoresNothing, 0, 2, 40000}) {
      const auto desc = [&](std::int64_t batch, std::int64_t classes, std::int64_t positions = 1) {
        return CrossEntropyDesc{.batch = batch,
                                .classes = classes,
                                .positions = positions,
                                .label_smoothing = s,
                                .ignore_index = ignored};
      };
      add(desc(1, 1), 1);
      add(desc(5, 3), 5);
      add(desc(7, 10), 4);
      add(desc(4, 10), 0);
      add(desc(61, 311), 60);
      add(desc(1, 1, 2), 1);
      add(desc(2, 3, 5), 2);
      add(desc(3, 4, 64), 2);
      add(desc(2, 21, 65), 2);
      add(desc(3, 300, 70), 2);
    }
  }
  return all;
}

bool counts(const LossBatch& b, std::int64_t n, std::int64_t p) {
  return n < b.samples &&
         b.labels[static_cast<std::size_t>(n * b.desc.positions + p)] != b.desc.ignore_index;
}

template <typename Each>
void for_each_prediction(const LossBatch& b, const Each& each) {
  for (std::int64_t n = 0; n < b.desc.batch; ++n) {
    for (std::int64_t p = 0; p < b.desc.positions; ++p) each(n, p);
  }
}

TEST(SoftmaxCrossEntropy, SumsTheLossesOfThePredictionsThatCount) {
  for (BackendFixture& fixture : all_backends())
    for (const LossBatch& b : batches()) {
      double want = 0;
      std::uint64_t counted = 0;
      for_each_prediction(b, [&](std::int64_t n, std::int64_t p) {
        if (!counts(b, n, p)) return;
        want += naive_loss(b, n, p);
        ++counted;
      });
      const LossResult got = run_loss(fixture, b);
      EXPECT_NEAR(got.totals.loss_sum, want, loss_tolerance(b) * static_cast<double>(counted));
      EXPECT_EQ(got.totals.counted, counted);
    }
}

TEST(SoftmaxCrossEntropy, TellsTheClassOfEachPredictionThatCounts) {
  for (BackendFixture& fixture : all_backends())
    for (const LossBatch& b : batches()) {
      const LossResult got = run_loss(fixture, b);
      for_each_prediction(b, [&](std::int64_t n, std::int64_t p) {
        if (!counts(b, n, p)) return;
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < b.desc.classes; ++j)
          if (b.logits[b.at(n, j, p)] > b.logits[b.at(n, best, p)]) best = j;
        ASSERT_EQ(got.predicted[static_cast<std::size_t>(n * b.desc.positions + p)], best);
      });
    }
}

TEST(SoftmaxCrossEntropy, WritesTheScaledGradientAndZerosForAllElse) {
  constexpr float kScale = 0.25F, kValidWeight = 1.5F;
  for (BackendFixture& fixture : all_backends())
    for (const LossBatch& b : batches()) {
      const LossResult got =
          run_loss(fixture, b, {.grad_scale = kScale, .valid_weight = kValidWeight});
      for_each_prediction(b, [&](std::int64_t n, std::int64_t p) {
        for (std::int64_t j = 0; j < b.desc.classes; ++j) {
          const float g = got.gradient[b.at(n, j, p)];
          if (counts(b, n, p)) {
            EXPECT_NEAR(g, kScale * kValidWeight * naive_gradient(b, n, j, p), loss_tolerance(b));
          } else {
            EXPECT_EQ(g, 0);
          }
        }
      });
    }
}

// Else two computations of a step that scale differently are apart near a minimum by far more than
// the rounding of sums (docs/verification.md).
TEST(SoftmaxCrossEntropy, RoundsTheScaleLastWhereTheGradientNearlyVanishes) {
  for (BackendFixture& fixture : all_backends())
    for (const LossBatch& b : batches()) {
      SCOPED_TRACE(describe(b.desc));
      expect_scale_is_rounded_last(fixture, b);
    }
}

// Third derivatives of log-sum-exp are at most 0.1, so the truncation error is below h^2 / 60.
TEST(SoftmaxCrossEntropy, GradientEqualsFiniteDifferencesOfTheLoss) {
  constexpr float kStep = 0x1p-7F;
  BackendFixture fixture = BackendFixture::reference();
  for (const CrossEntropyDesc& desc :
       {CrossEntropyDesc{.batch = 3, .classes = 4}, CrossEntropyDesc{.batch = 2,
                                                    .classes = 3,
                                                    .positions = 4,
                                                    .label_smoothing = 0.2,
                                                    .ignore_index = 1,
                                                    .weight = 0.5}}) {
    LossBatch b = make_loss_batch(desc, desc.batch);
    for (float& v : b.logits) v = std::round(v * 64) / 64;  // so that v +- h is exact
    const LossResult at = run_loss(fixture, b);
    for (std::size_t k = 0; k < b.logits.size(); ++k) {
      const float value = b.logits[k];
      b.logits[k] = value + kStep;
      const double above = run_loss(fixture, b).totals.loss_sum;
      b.logits[k] = value - kStep;
      const double below = run_loss(fixture, b).totals.loss_sum;
      b.logits[k] = value;
      EXPECT_NEAR(at.gradient[k], (above - below) / (2 * kStep), kStep * kStep / 60 + kEpsilon);
    }
  }
}

// Computed by torch 1.13: cross_entropy(logits, labels, label_smoothing=, ignore_index=) and its
// gradient, means over the labels that are not ignored.
TEST(SoftmaxCrossEntropy, IsPyTorchs) {
  const Values rows = {0.5,  -1.25, 2.0, 0.0, 3.0, 1.0, -2.0, 0.75,
                       -0.5, 0.25,  0.5, 1.5, 1.0, 1.0, -1.0, 0.0};
  const Values maps = {0.5, -1.25, 2.0, 0.0, 3.0, 1.0, -2.0, 0.75, -0.5, 0.25, 0.5, 1.5};
  struct RecordedLoss {
    LossBatch batch;
    double loss;
    Values gradient;
  };
  const auto of_rows = [&](double smoothing, std::int32_t ignored) {
    const CrossEntropyDesc desc{
        .batch = 4, .classes = 4, .label_smoothing = smoothing, .ignore_index = ignored};
    return LossBatch{desc, 4, rows, {2, 0, 1, 3}};
  };
  const RecordedLoss cases[] = {
      {of_rows(0.1, kIgnoresNothing),
       1.1653757095336914,
       {0.033673383F, 0.000687644F, -0.052325796F, 0.017964756F, -0.030844802F, 0.020871896F,
        -0.004899681F, 0.014872554F, 0.012654536F, -0.19122909F, 0.045137856F, 0.133436665F,
        0.093621574F, 0.093621574F, 0.007266147F, -0.194509283F}},
      {of_rows(0.25, 1),
       1.1368980407714844,
       {0.032397848F, -0.011583141F, -0.032267731F, 0.01145301F, -0.003626365F, 0.015329204F,
        -0.019032907F, 0.007330078F, 0, 0, 0, 0, 0.112328783F, 0.112328783F, -0.002811803F,
        -0.221845746F}},
      {of_rows(0, 1),
       0.8243979811668396,
       {0.05323118F, 0.009250193F, -0.094767734F, 0.032286346F, -0.066126391F, 0.036162533F,
        0.001800427F, 0.028163409F, 0, 0, 0, 0, 0.133162111F, 0.133162111F, 0.018021531F,
        -0.284345746F}},
      {{{.batch = 2, .classes = 3, .positions = 2, .label_smoothing = 0.1, .ignore_index = 255},
        2,
        maps,
        {2, 0, 255, 1}},
       1.588456153869629,
       {0.007759464F, -0.287264228F, 0.073460944F, 0.072122619F, -0.081220426F, 0.215141624F, 0,
        0.078409664F, 0, -0.256814003F, 0, 0.178404346F}},
  };
  for (BackendFixture& fixture : all_backends())
    for (const RecordedLoss& c : cases) {
      const auto counted = static_cast<double>(run_loss(fixture, c.batch).totals.counted);
      const LossResult got =
          run_loss(fixture, c.batch, {.grad_scale = static_cast<float>(1 / counted)});
      EXPECT_NEAR(got.totals.loss_sum / counted, c.loss, 4 * kEpsilon);
      for (std::size_t i = 0; i < c.gradient.size(); ++i) {
        EXPECT_NEAR(got.gradient[i], c.gradient[i], 2 * kEpsilon) << i;
      }
    }
}

// PyTorch's mean over no label is NaN.
TEST(SoftmaxCrossEntropy, HasNeitherLossNorGradientWhereNoLabelCounts) {
  for (BackendFixture& fixture : all_backends())
    for (const std::int64_t positions : {1, 70}) {
      LossBatch b =
          make_loss_batch({.batch = 2, .classes = 3, .positions = positions, .ignore_index = 2}, 2);
      for (std::int32_t& label : b.labels) label = 2;
      const LossResult got = run_loss(fixture, b);
      EXPECT_EQ(got.totals.loss_sum, 0);
      EXPECT_EQ(got.totals.correct, 0U);
      EXPECT_EQ(got.totals.counted, 0U);
      EXPECT_EQ(got.gradient, Values(b.logits.size(), 0));
    }
}

TEST(SoftmaxCrossEntropy, CountsTheFirstOfEqualLargestLogits) {
  for (BackendFixture& fixture : all_backends()) {
    const LossBatch b = {{.batch = 3, .classes = 3}, 3, {1, 1, 0, 1, 1, 0, 0, 2, 1}, {0, 0, 1}};
    EXPECT_EQ(run_loss(fixture, b).totals.correct, 3U);
    const LossBatch map = {
        {.batch = 1, .classes = 3, .positions = 3}, 3 / 3, {1, 1, 0, 1, 1, 2, 0, 0, 1}, {0, 0, 1}};
    EXPECT_EQ(run_loss(fixture, map).totals.correct, 3U);
  }
}

TEST(SoftmaxCrossEntropy, AddsToTheTotalsAndWorksWithoutAGradient) {
  for (BackendFixture& fixture : all_backends())
    for (const std::int64_t positions : {1, 9}) {
      const LossBatch b = make_loss_batch({.batch = 5, .classes = 10, .positions = positions}, 5);
      const LossTotals once = run_loss(fixture, b).totals;
      LossTotals totals = once;
      fixture.backend().loss(
          fixture.stream(), b.desc,
          {.logits = b.logits.data(), .labels = b.labels.data(), .samples = 5, .totals = &totals});
      // Double additions in another order: a few roundings of a sum below 1000.
      EXPECT_NEAR(totals.loss_sum, 2 * once.loss_sum, 1e-11);
      EXPECT_EQ(totals.correct, 2 * once.correct);
      EXPECT_EQ(totals.counted, 2 * once.counted);
    }
}

TEST(SoftmaxCrossEntropy, OfAnAuxiliaryOutputAddsItsWeightedLossAlone) {
  for (BackendFixture& fixture : all_backends())
    for (const std::int64_t positions : {1, 9}) {
      CrossEntropyDesc desc{.batch = 5, .classes = 10, .positions = positions};
      const LossResult whole = run_loss(fixture, make_loss_batch(desc, 5));
      desc.weight = 0.5;
      desc.counts_hits = false;
      const LossResult half = run_loss(fixture, make_loss_batch(desc, 5));
      EXPECT_EQ(half.totals.loss_sum, whole.totals.loss_sum / 2);
      EXPECT_EQ(half.totals.correct, 0U);
      EXPECT_EQ(half.totals.counted, 0U);
      for (std::size_t i = 0; i < whole.gradient.size(); ++i) {
        EXPECT_EQ(half.gradient[i], whole.gradient[i] / 2);
      }
    }
}

TEST(SoftmaxCrossEntropy, SurvivesLogitsWhoseExponentialOverflows) {
  for (BackendFixture& fixture : all_backends()) {
    const LossBatch b = {{.batch = 2, .classes = 2}, 2, {1000, 0, -1000, 0}, {0, 0}};
    const LossResult got = run_loss(fixture, b);
    EXPECT_EQ(got.totals.loss_sum, 1000);
    // Exponentials far below 1 may end at e^-87.
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(got.gradient[i], (Values{0, 0, -1, 1})[i], 2e-38);
    }
    const LossBatch map = {
        {.batch = 1, .classes = 2, .positions = 2}, 1, {1000, -1000, 0, 0}, {0, 0}};
    const LossResult of_map = run_loss(fixture, map);
    EXPECT_EQ(of_map.totals.loss_sum, 1000);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(of_map.gradient[i], (Values{0, -1, 0, 1})[i], 2e-38);
    }
  }
}

TEST(SoftmaxCrossEntropy, HandsOnLogitsThatAreNoNumbers) {
  const float nan = std::nanf("");
  for (BackendFixture& fixture : all_backends())
    for (const std::int64_t positions : {1, 70})
      for (const std::size_t at : {0, 1}) {
        LossBatch b = make_loss_batch({.batch = 1, .classes = 2, .positions = positions}, 1);
        b.logits[at * static_cast<std::size_t>(positions)] = nan;
        const LossResult got = run_loss(fixture, b);
        EXPECT_TRUE(std::isnan(got.totals.loss_sum)) << positions << ' ' << at;
        EXPECT_TRUE(std::isnan(got.gradient[0]));
      }
}

// Those of long rows and maps are split over a team.
TEST(SoftmaxCrossEntropy, KeepsTheFirstStepWhoseLossIsNotFinite) {
  for (BackendFixture& fixture : all_backends())
    for (const CrossEntropyDesc& desc :
         {CrossEntropyDesc{.batch = 5, .classes = 3}, CrossEntropyDesc{.batch = 61, .classes = 311},
          CrossEntropyDesc{.batch = 2, .classes = 3, .positions = 5},
          CrossEntropyDesc{.batch = 3, .classes = 300, .positions = 70}}) {
      SCOPED_TRACE(describe(desc));
      expect_first_diverged_step_is_kept(fixture, make_loss_batch(desc, desc.batch));
    }
}

TEST(SoftmaxCrossEntropy, RefusesEmptyShapesAndSmoothingsThatAreNoShares) {
  for (BackendFixture& fixture : all_backends()) {
    const auto make = [&](const CrossEntropyDesc& desc) {
      fixture.backend().loss(fixture.stream(), desc, {});
    };
    EXPECT_THROW(make({.batch = 2, .classes = 0}), ConfigError);
    EXPECT_THROW(make({.batch = 2, .classes = 2, .positions = 0}), ConfigError);
    EXPECT_THROW(make({.batch = 2, .classes = 2, .label_smoothing = 1.5}), InternalError);
    EXPECT_THROW(make({.batch = 2, .classes = 2, .label_smoothing = std::nan("")}), InternalError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
