// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/adam_sizes.h"

#include <algorithm>
#include <cmath>

namespace ddpbench::bench {

AdamSizes::AdamSizes(const ops::OptimizerOptions& options, double error)
    : options_(options), error_(error) {}

// m = sum a_j g_j and v = sum b_j g_j^2 over steps j <= k, with weights a and b that add up to 1.
// So m^2 <= (sum a_j^2 / b_j) v. With j counted backwards, a_j is (1 - beta1) beta1^j / (1 -
// beta1^k).
double AdamSizes::largest_ratio() const {
  const double a = (1 - options_.beta1) / mean_weight_;
  const double b = (1 - options_.beta2) / square_weight_;
  const double growth = options_.beta1 * options_.beta1 / options_.beta2;
  double sum = 0, power = 1;
  for (std::int64_t j = 0; j < step_ && power > 0; ++j) {
    sum += power;
    power *= growth;
  }
  return std::sqrt(a * a / b * sum);
}

void AdamSizes::begin_step(double lr) {
  lr_ = lr;
  const auto step = static_cast<double>(++step_);
  mean_weight_ = 1 - std::pow(options_.beta1, step);
  square_weight_ = 1 - std::pow(options_.beta2, step);
  ratio_ = largest_ratio();
}

double AdamSizes::update(std::size_t tensor, std::span<const float> gradients,
                         std::span<const float> slice_squares, double terms,
                         std::span<const float> weights) {
  if (tensor >= tensors_.size()) tensors_.resize(tensor + 1);
  Moments& kept = tensors_[tensor];
  const std::size_t count = gradients.size();
  for (auto* values : {&kept.mean, &kept.square, &kept.mean_error, &kept.square_error}) {
    values->resize(count);
  }
  const bool decays = options_.kind == ops::OptimizerKind::adam;
  const double typical = terms / std::sqrt(static_cast<double>(std::max<std::size_t>(1, count)));
  double squared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // Where no computation has a gradient, all terms are exactly 0, and nothing is rounded.
    const double own = std::sqrt(static_cast<double>(slice_squares[i]));
    const double size = own > 0 ? std::max({typical, own, std::abs(double{gradients[i]})}) : 0;
    const double error = error_ * size;
    const double gradient = gradients[i] + (decays ? options_.weight_decay * weights[i] : 0);
    const auto moved = [](float& mean, double beta, double value) {
      return mean = static_cast<float>(beta * mean + (1 - beta) * value);
    };
    const double mean = moved(kept.mean[i], options_.beta1, gradient) / mean_weight_;
    const double mean_error = moved(kept.mean_error[i], options_.beta1, error) / mean_weight_;
    const double root =
        std::sqrt(moved(kept.square[i], options_.beta2, gradient * gradient) / square_weight_);
    const double root_error =
        std::sqrt(moved(kept.square_error[i], options_.beta2, error * error) / square_weight_);
    if (mean_error == 0 && root_error == 0) continue;
    const double divisor = root + options_.epsilon;
    // With m' and v' of the other computation, the difference of the updates is
    // ((m' - m) - m' / (sqrt(v') + epsilon) (sqrt(v') - sqrt(v))) / (sqrt(v) + epsilon). Both of
    // them are bounded, too.
    const double difference =
        std::min((mean_error + ratio_ * root_error) / divisor, ratio_ + std::abs(mean) / divisor);
    squared += difference * difference;
  }
  return lr_ * std::sqrt(squared) / error_;
}

}  // namespace ddpbench::bench
