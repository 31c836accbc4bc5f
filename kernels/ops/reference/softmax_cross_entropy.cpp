// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference softmax cross-entropy in double precision. d loss_i / d x_ij = softmax(x_i)_j - s /
// classes - (1 - s) [j = label_i]. About 5 operations and one exponential a logit.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Loss : public SoftmaxCrossEntropy {
 public:
  explicit Loss(const CrossEntropyDesc& desc)
      : desc_(desc), x_(static_cast<std::size_t>(std::max<std::int64_t>(desc.classes, 0))) {
    check_loss(desc);
  }

  void run(Stream&, const LossArgs& args) override {
    if (args.grad_logits) {
      std::fill_n(args.grad_logits, desc_.batch * desc_.classes * desc_.positions, 0.0F);
    }
    LossTotals sums;
    for (std::int64_t i = 0; i < args.samples * desc_.positions; ++i) {
      if (args.labels[i] != desc_.ignore_index) predict(args, i, sums);
    }
    add_output(*args.totals, sums, desc_);
  }

 private:
  void predict(const LossArgs& args, std::int64_t i, LossTotals& sums) {
    const std::int64_t stride = desc_.positions;
    const std::int64_t first = i / stride * desc_.classes * stride + i % stride;
    const auto at = [&](std::size_t j) { return first + static_cast<std::int64_t>(j) * stride; };
    const auto label = static_cast<std::size_t>(args.labels[i]);
    for (std::size_t j = 0; j < x_.size(); ++j) x_[j] = args.logits[at(j)];
    const auto best = static_cast<std::size_t>(std::ranges::max_element(x_) - x_.begin());
    const double largest = x_[best];
    double sum = 0, gaps = 0;
    for (const double x : x_) {
      sum += std::exp(x - largest);
      gaps += largest - x;
    }
    const double spread = desc_.label_smoothing / static_cast<double>(desc_.classes);
    const double kept = 1 - desc_.label_smoothing;
    sums.loss_sum += std::log(sum) + kept * (largest - x_[label]) + spread * gaps;
    sums.correct += best == label ? 1 : 0;
    ++sums.counted;
    for (std::size_t j = 0; args.grad_logits && j < x_.size(); ++j) {
      const double target = spread + (j == label ? kept : 0);
      const double share = std::exp(x_[j] - largest) / sum;
      args.grad_logits[at(j)] = static_cast<float>(gradient_scale(desc_, args) * (share - target));
    }
  }

  CrossEntropyDesc desc_;
  std::vector<double> x_;  // the logits of one prediction
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(const CrossEntropyDesc& desc) {
  return std::make_unique<Loss>(desc);
}

}  // namespace ddpbench::ops::reference
