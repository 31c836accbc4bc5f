// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One exponential and about 5 operations a logit, 8 bytes a logit: 13 microseconds for 256 x 10.
//
// Exponentials are in single precision, the sum over samples in double. Each thread sums its own
// rows in order, then the threads' sums are added in order, so that equal runs give equal bits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cpu {
namespace {

class Loss : public SoftmaxCrossEntropy {
 public:
  Loss(std::int64_t batch, std::int64_t classes, int threads)
      : batch_(batch), classes_(classes), partial_(static_cast<std::size_t>(threads)) {
    check_shape({batch, classes}, "softmax_cross_entropy");
  }

  void run(Stream&, const LossArgs& args) override {
    const int threads =
        args.samples * classes_ < kMinParallelElements ? 1 : static_cast<int>(partial_.size());
    parallel_shares(threads, args.samples, 1,
                    [&](int thread, std::int64_t begin, std::int64_t end) {
                      partial_[static_cast<std::size_t>(thread)] = rows(args, begin, end);
                    });
    for (int t = 0; t < threads; ++t) {
      args.totals->loss_sum += partial_[static_cast<std::size_t>(t)].loss_sum;
      args.totals->correct += partial_[static_cast<std::size_t>(t)].correct;
    }
    args.totals->samples += static_cast<std::uint64_t>(args.samples);
    if (args.grad_logits)
      std::fill(args.grad_logits + args.samples * classes_, args.grad_logits + batch_ * classes_,
                0.0F);
  }

 private:
  LossTotals rows(const LossArgs& args, std::int64_t begin, std::int64_t end) const {
    LossTotals totals;
    for (std::int64_t n = begin; n < end; ++n) {
      const float* x = args.logits + n * classes_;
      const std::int64_t best = std::max_element(x, x + classes_) - x;
      float* const grad = args.grad_logits ? args.grad_logits + n * classes_ : nullptr;
      totals.loss_sum += row(x, x[best], args.labels[n], args.grad_scale, grad);
      totals.correct += best == args.labels[n] ? 1 : 0;
    }
    return totals;
  }

  // Returns a sample's loss. Writes grad_j = scale * (softmax_j - [j = label]) unless grad is null.
  double row(const float* x, float largest, std::int32_t label, float scale, float* grad) const {
    float sum = 0;
    for (std::int64_t j = 0; j < classes_; ++j) {
      const float e = std::exp(x[j] - largest);
      if (grad) grad[j] = e;
      sum += e;
    }
    if (grad) {
      const float factor = scale / sum;
      for (std::int64_t j = 0; j < classes_; ++j) grad[j] *= factor;
      grad[label] -= scale;
    }
    return std::log(static_cast<double>(sum)) + (static_cast<double>(largest) - x[label]);
  }

  std::int64_t batch_, classes_;
  std::vector<LossTotals> partial_;  // one a thread
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(std::int64_t batch,
                                                                std::int64_t classes, int threads) {
  return std::make_unique<Loss>(batch, classes, threads);
}

}  // namespace ddpbench::ops::cpu
