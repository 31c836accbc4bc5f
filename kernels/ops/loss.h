// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy with its gradient, and the running totals that it keeps on the device.
#pragma once

#include <cstdint>

#include "kernels/ops/tensor_layout.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

// It lives in device memory. The loss adds to it; it is read at the end of an epoch.
struct LossTotals {
  double loss_sum = 0;        // sum over samples, natural logarithm
  std::uint64_t correct = 0;  // samples whose largest logit is the label's (first wins a tie)
  std::uint64_t samples = 0;

  LossTotals& operator+=(const LossTotals& part) {
    loss_sum += part.loss_sum;
    correct += part.correct;
    samples += part.samples;
    return *this;
  }
};

struct LossArgs {
  const float* logits = nullptr;         // [batch, classes], plain
  const std::int32_t* labels = nullptr;  // [batch], each in [0, classes)
  std::int64_t samples = 0;              // the first `samples` rows count; at most the batch
  float grad_scale = 1;                  // gradient of (grad_scale * sum of losses)
  float* grad_logits = nullptr;  // [batch, classes]; null: evaluation; rows past `samples` are 0
  LossTotals* totals = nullptr;  // in device memory; added to
};

// loss_i = log(sum_j exp(x_ij)) - x_i,label, computed after subtracting the row maximum.
class SoftmaxCrossEntropy {
 public:
  virtual ~SoftmaxCrossEntropy() = default;
  virtual void run(Stream& stream, const LossArgs& args) = 0;
};

}  // namespace ddpbench::ops
