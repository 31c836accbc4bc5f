// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One exponential and about 5 operations a logit, 8 bytes a logit.
//
// Exponentials are in single precision, the sum over samples in double. Each thread sums its own
// predictions in order, then the threads' sums are added in order, so that equal runs give equal
// bits.
//
// The target is subtracted before the gradient is scaled: where they nearly cancel, gradients of
// different scales are still equal but for the rounding of one product (docs/verification.md).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/activation.h"
#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// The logits of a prediction are a row of memory, or, in maps, `positions` apart.
class Loss {
 public:
  Loss(const CrossEntropyDesc& desc, const LossArgs& args)
      : desc_(desc),
        args_(args),
        scale_(gradient_scale(desc, args)),
        kept_(static_cast<float>(1 - desc.label_smoothing)),
        spread_(static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes))) {}

  // Computes predictions [begin, end): their gradients, where wanted, and returns their sums.
  LossTotals sums_of(std::int64_t begin, std::int64_t end) const {
    LossTotals sums;
    const std::int64_t stride = desc_.positions;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i / stride * desc_.classes * stride + i % stride;
      float* const gradient = args_.grad_logits ? args_.grad_logits + first : nullptr;
      if (args_.labels[i] != desc_.ignore_index) {
        add_prediction(i, args_.logits + first, gradient, sums);
      } else if (gradient) {
        for (std::int64_t j = 0; j < desc_.classes; ++j) gradient[j * stride] = 0;
      }
    }
    return sums;
  }

 private:
  void add_prediction(std::int64_t i, const float* x, float* gradient, LossTotals& sums) const {
    const std::int64_t stride = desc_.positions, classes = desc_.classes, label = args_.labels[i];
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < classes; ++j) {
      if (x[j * stride] > x[best * stride]) best = j;  // of equal ones the first stays
    }
    const float largest = x[best * stride];
    float sum = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      const float e = exponential(x[j * stride] - largest);
      if (gradient) gradient[j * stride] = e;
      sum += e;
    }
    if (gradient) write_gradient(gradient, label, 1 / sum);
    const double gap = static_cast<double>(largest) - x[label * stride];
    sums.loss_sum += std::log(static_cast<double>(sum)) + smoothed(x, largest, gap);
    sums.correct += best == label ? 1 : 0;
    if (args_.predicted) args_.predicted[i] = static_cast<std::int32_t>(best);
    ++sums.counted;
  }

  // Where the exponentials are.
  void write_gradient(float* gradient, std::int64_t label, float inverse) const {
    for (std::int64_t j = 0; j < desc_.classes; ++j) {
      float& g = gradient[j * desc_.positions];
      const float rest = g * inverse - spread_;
      g = (j == label ? rest - kept_ : rest) * scale_;
    }
  }

  // What the target's shares of the logits lie below the largest one.
  double smoothed(const float* x, float largest, double gap) const {
    const double smoothing = desc_.label_smoothing;
    if (smoothing == 0) return gap;
    double gaps = 0;
    for (std::int64_t j = 0; j < desc_.classes; ++j) {
      gaps += static_cast<double>(largest) - x[j * desc_.positions];
    }
    return (1 - smoothing) * gap + smoothing * gaps / static_cast<double>(desc_.classes);
  }

  const CrossEntropyDesc& desc_;
  const LossArgs& args_;
  float scale_, kept_, spread_;  // of the gradient: its factor; of the target: 1 - s, s / classes
};

}  // namespace

void softmax_cross_entropy(int threads, const CrossEntropyDesc& desc, const LossArgs& args) {
  check_loss(desc);
  const std::int64_t sample = desc.classes * desc.positions;
  if (args.samples * sample < kMinParallelElements) threads = 1;
  const Loss loss(desc, args);
  std::vector<LossTotals> partial(static_cast<std::size_t>(threads));
  parallel_shares(threads, args.samples * desc.positions, 1,
                  [&](int thread, std::int64_t begin, std::int64_t end) {
                    partial[static_cast<std::size_t>(thread)] = loss.sums_of(begin, end);
                  });
  LossTotals sums;
  for (const LossTotals& own : partial) sums += own;
  add_output(*args.totals, sums, desc);
  if (args.grad_logits) {
    std::fill(args.grad_logits + args.samples * sample, args.grad_logits + desc.batch * sample,
              0.0F);
  }
}

}  // namespace ddpbench::ops::cpu
