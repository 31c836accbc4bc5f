// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/loss_batches.h"

#include <algorithm>
#include <cmath>

namespace ddpbench::ops::testing {
namespace {

double exponentials(const LossBatch& b, std::int64_t n, std::int64_t p) {
  double sum = 0;
  for (std::int64_t j = 0; j < b.desc.classes; ++j) {
    sum += std::exp(static_cast<double>(b.logits[b.at(n, j, p)]));
  }
  return sum;
}

// The share of class j in the target.
double target(const LossBatch& b, std::int64_t n, std::int64_t j, std::int64_t p) {
  const double smoothing = b.desc.label_smoothing;
  const bool is_label = b.labels[static_cast<std::size_t>(n * b.desc.positions + p)] == j;
  return smoothing / static_cast<double>(b.desc.classes) + (is_label ? 1 - smoothing : 0);
}

// Moves shares to within about a thousandth of the target's.
void approach_target(LossBatch& b) {
  constexpr double kLeastShare = 1e-6;
  for (std::int64_t n = 0; n < b.desc.batch; ++n) {
    for (std::int64_t p = 0; p < b.desc.positions; ++p) {
      for (std::int64_t j = 0; j < b.desc.classes; ++j) {
        float& logit = b.logits[b.at(n, j, p)];
        const double share = std::max(target(b, n, j, p), kLeastShare);
        logit = static_cast<float>(std::log(share) + 1e-4 * logit);
      }
    }
  }
}

}  // namespace

LossBatch make_loss_batch(const CrossEntropyDesc& desc, std::int64_t samples) {
  LossBatch b{desc, samples, random_values(desc.batch * desc.classes * desc.positions, 1), {}};
  for (float& v : b.logits) v *= 8;
  for (std::int64_t i = 0; i < desc.batch * desc.positions; ++i) {
    const bool ignored = desc.ignore_index != kIgnoresNothing && i % 3 == 0;
    b.labels.push_back(ignored ? desc.ignore_index
                               : static_cast<std::int32_t>(i * 7 % desc.classes));
  }
  return b;
}

double naive_loss(const LossBatch& b, std::int64_t n, std::int64_t p) {
  const double log_sum = std::log(exponentials(b, n, p));
  double loss = 0;
  for (std::int64_t j = 0; j < b.desc.classes; ++j) {
    loss += target(b, n, j, p) * (log_sum - b.logits[b.at(n, j, p)]);
  }
  return loss;
}

double naive_gradient(const LossBatch& b, std::int64_t n, std::int64_t j, std::int64_t p) {
  const double share =
      std::exp(static_cast<double>(b.logits[b.at(n, j, p)])) / exponentials(b, n, p);
  return share - target(b, n, j, p);
}

double loss_tolerance(const LossBatch& b) {
  return kEpsilon * static_cast<double>(b.desc.classes + 16);
}

LossResult run_loss(BackendFixture& fixture, const LossBatch& b, const LossRun& how) {
  const OpMemory logits = fixture.upload(b.logits), labels = fixture.upload(b.labels);
  const OpMemory gradient = fixture.allocate(b.logits.size() * sizeof(float));
  const OpMemory totals = fixture.upload(&how.before, sizeof(how.before));
  const OpMemory weight = fixture.upload(&how.valid_weight, sizeof(how.valid_weight));
  const OpMemory predicted = fixture.upload(std::vector<std::int32_t>(b.labels.size(), -1));
  const OpMemory workspace = fixture.allocate(fixture.backend().loss_workspace_bytes(b.desc));
  const LossArgs args{.logits = reinterpret_cast<const float*>(logits.data()),
                      .labels = reinterpret_cast<const std::int32_t*>(labels.data()),
                      .samples = b.samples,
                      .grad_scale = how.grad_scale,
                      .valid_weight = how.valid_weight != 0
                                          ? reinterpret_cast<const float*>(weight.data())
                                          : nullptr,
                      .grad_logits = reinterpret_cast<float*>(gradient.data()),
                      .totals = reinterpret_cast<LossTotals*>(totals.data()),
                      .predicted = reinterpret_cast<std::int32_t*>(predicted.data()),
                      .workspace = workspace.data()};
  if (how.recorded) {
    fixture.stream().begin_recording();
    fixture.backend().loss(fixture.stream(), b.desc, args);
    fixture.stream().end_recording()->replay(fixture.stream());
  } else {
    fixture.backend().loss(fixture.stream(), b.desc, args);
  }
  LossResult result{.totals = {},
                    .gradient = fixture.download<float>(gradient),
                    .predicted = fixture.download<std::int32_t>(predicted)};
  fixture.download(totals, &result.totals);
  return result;
}

void expect_scale_is_rounded_last(BackendFixture& fixture, LossBatch b) {
  constexpr double kRoundings = 2 * 0x1.00001p-24;  // one in each gradient
  const LossRun all = {.grad_scale = 1.0F / 48}, one = {.grad_scale = 1.0F / 16};
  approach_target(b);
  const Values scaled = run_loss(fixture, b, all).gradient;
  const Values other = run_loss(fixture, b, one).gradient;
  double largest = 0;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double gradient = static_cast<double>(other[i]) / one.grad_scale;
    const double expected = gradient * all.grad_scale;
    EXPECT_NEAR(scaled[i], expected, kRoundings * std::abs(expected)) << i;
    largest = std::max(largest, std::abs(gradient));
  }
  EXPECT_LT(largest, 5e-3) << "nothing cancelled";
}

void expect_first_diverged_step_is_kept(BackendFixture& fixture, LossBatch b) {
  const LossTotals four_steps = {.steps = 4};
  const auto totals_after = [&](const LossTotals& before) {
    return run_loss(fixture, b, {.before = before}).totals;
  };
  const LossTotals finite = totals_after(four_steps);
  EXPECT_EQ(finite.steps, 5U);
  EXPECT_EQ(finite.diverged_step, 0U);
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    b.logits.back() = bad;
    const LossTotals first = totals_after(four_steps);
    EXPECT_EQ(first.steps, 5U);
    EXPECT_EQ(first.diverged_step, 5U);
    EXPECT_EQ(totals_after(first).steps, 6U);
    EXPECT_EQ(totals_after(first).diverged_step, 5U);
  }
  // An auxiliary output begins no step.
  b.desc.counts_hits = false;
  const LossTotals auxiliary = totals_after({.steps = 5});
  EXPECT_EQ(auxiliary.steps, 5U);
  EXPECT_EQ(auxiliary.diverged_step, 5U);
}

}  // namespace ddpbench::ops::testing
