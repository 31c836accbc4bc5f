// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference softmax cross-entropy in double precision. d loss_i / d x_ij = softmax(x_i)_j - [j =
// label_i]. About 5 operations and one exponential a logit.
#include <algorithm>
#include <cmath>

#include "kernels/ops/planned_op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Loss : public SoftmaxCrossEntropy {
 public:
  Loss(std::int64_t batch, std::int64_t classes) : batch_(batch), classes_(classes) {
    check_shape({batch, classes}, "softmax_cross_entropy");
  }

  void run(Stream&, const LossArgs& args) override {
    if (args.grad_logits) std::fill_n(args.grad_logits, batch_ * classes_, 0.0F);
    for (std::int64_t n = 0; n < args.samples; ++n) row(args, n);
    args.totals->samples += static_cast<std::uint64_t>(args.samples);
  }

 private:
  void row(const LossArgs& args, std::int64_t n) const {
    const float* x = args.logits + n * classes_;
    const float* largest = std::max_element(x, x + classes_);
    double sum = 0;
    for (std::int64_t j = 0; j < classes_; ++j)
      sum += std::exp(static_cast<double>(x[j]) - *largest);
    const std::int32_t label = args.labels[n];
    args.totals->loss_sum += std::log(sum) + *largest - x[label];
    args.totals->correct += largest - x == label ? 1 : 0;
    for (std::int64_t j = 0; args.grad_logits && j < classes_; ++j) {
      const double p = std::exp(static_cast<double>(x[j]) - *largest) / sum;
      args.grad_logits[n * classes_ + j] =
          static_cast<float>(args.grad_scale * (p - (j == label ? 1 : 0)));
    }
  }

  std::int64_t batch_, classes_;
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(std::int64_t batch,
                                                                std::int64_t classes) {
  return std::make_unique<Loss>(batch, classes);
}

}  // namespace ddpbench::ops::reference
