// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches of logits and labels for tests of the loss, on any device.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/flat_ops.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {

struct LossBatch {
  CrossEntropyDesc desc;
  std::int64_t samples = 0;          // that count
  Values logits;                     // [batch, classes, positions]
  std::vector<std::int32_t> labels;  // [batch, positions]

  std::size_t at(std::int64_t n, std::int64_t j, std::int64_t p) const {
    return static_cast<std::size_t>((n * desc.classes + j) * desc.positions + p);
  }
};

// Logits in [-8, 8). Where an index is ignored, every third label is that, also those of the first
// sample.
LossBatch make_loss_batch(const CrossEntropyDesc& desc, std::int64_t samples);

// The smoothed loss of one prediction and its gradient with respect to the logit of class j, in
// double precision, computed in the plainest way.
double naive_loss(const LossBatch& b, std::int64_t n, std::int64_t p);
double naive_gradient(const LossBatch& b, std::int64_t n, std::int64_t j, std::int64_t p);

// The error of one loss by rounding: a float sum of `classes` exponentials, each within a few eps,
// and x - max within eps of 16.
double loss_tolerance(const LossBatch& b);

struct LossResult {
  LossTotals totals;
  Values gradient;
  std::vector<std::int32_t> predicted;  // -1: not written
};

// How a loss is run, beside its batch.
struct LossRun {
  float grad_scale = 1;
  float valid_weight = 0;  // 0: none is given
  LossTotals before = {};  // what the totals begin with
  bool recorded = false;   // the run is recorded and replayed
};

LossResult run_loss(BackendFixture& fixture, const LossBatch& b, const LossRun& how = {});

// One device scales the gradient of a global batch by 1 / 48, each of three by 1 / 16. Checks that
// the two differ by the rounding of a product alone, relative to each element, with the logits of
// `b` moved to where the losses are nearly least: there the share of a class and its target cancel.
void expect_scale_is_rounded_last(BackendFixture& fixture, LossBatch b);

// Checks that the totals count the steps, and keep the first whose loss is not finite: here the
// fifth, where the last logit of `b` is not, which must count.
void expect_first_diverged_step_is_kept(BackendFixture& fixture, LossBatch b);

}  // namespace ddpbench::ops::testing
