// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/loss_batches.h"

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
  const auto op = fixture.backend().softmax_cross_entropy(b.desc);
  const LossArgs args{.logits = reinterpret_cast<const float*>(logits.data()),
                      .labels = reinterpret_cast<const std::int32_t*>(labels.data()),
                      .samples = b.samples,
                      .grad_scale = how.grad_scale,
                      .valid_weight = how.valid_weight != 0
                                          ? reinterpret_cast<const float*>(weight.data())
                                          : nullptr,
                      .grad_logits = reinterpret_cast<float*>(gradient.data()),
                      .totals = reinterpret_cast<LossTotals*>(totals.data())};
  if (how.recorded) {
    fixture.stream().begin_recording();
    op->run(fixture.stream(), args);
    fixture.stream().end_recording()->replay(fixture.stream());
  } else {
    op->run(fixture.stream(), args);
  }
  LossResult result{.totals = {}, .gradient = fixture.download<float>(gradient)};
  fixture.download(totals, &result.totals);
  return result;
}

}  // namespace ddpbench::ops::testing
