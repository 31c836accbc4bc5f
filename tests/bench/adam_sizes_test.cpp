// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The bound on what rounding does to updates of Adam, against pairs of computations whose gradients
// differ as much as the bound allows for.
#include "bench/rank/adam_sizes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ddpbench::bench {
namespace {

using Floats = std::vector<float>;

// Adam in double precision.
class ExactAdam {
 public:
  ExactAdam(const ops::OptimizerOptions& options, std::size_t count)
      : o_(options), mean_(count), square_(count) {}

  std::vector<double> update(const std::vector<double>& gradients) {
    ++step_;
    std::vector<double> moved(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      mean_[i] = o_.beta1 * mean_[i] + (1 - o_.beta1) * gradients[i];
      square_[i] = o_.beta2 * square_[i] + (1 - o_.beta2) * gradients[i] * gradients[i];
      const double root = std::sqrt(square_[i] / (1 - std::pow(o_.beta2, step_)));
      moved[i] = o_.lr * mean_[i] / (1 - std::pow(o_.beta1, step_)) / (root + o_.epsilon);
    }
    return moved;
  }

 private:
  ops::OptimizerOptions o_;
  int step_ = 0;
  std::vector<double> mean_, square_;
};

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

constexpr std::size_t kCount = 1000;
constexpr double kError = 1e-4;

// What one training gives: for each step, the norm of the update, how far another computation is
// from it, and the bound on that.
struct Step {
  double update, difference, bound;
};
std::vector<Step> train(const ops::OptimizerOptions& options, unsigned seed, int steps,
                        std::size_t orders) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  ExactAdam one(options, kCount), other(options, kCount);
  AdamSizes sizes(options, kError);
  std::vector<Step> found;
  for (int step = 0; step < steps; ++step) {
    // Elements of sizes over several orders of magnitude, as those of units that are hardly ever
    // active.
    Floats gradients(kCount), squares(kCount);
    std::vector<double> exact(kCount), perturbed(kCount);
    double terms = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      gradients[i] =
          static_cast<float>(normal(random) * std::pow(10, -static_cast<double>(i % orders)));
      squares[i] = gradients[i] * gradients[i];
      terms += squares[i];
    }
    terms = std::sqrt(terms);
    const double typical = terms / std::sqrt(static_cast<double>(kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      exact[i] = gradients[i];
      const double size = std::max(typical, std::abs(exact[i]));
      perturbed[i] = exact[i] + (random() % 2 == 0 ? kError : -kError) * size;
    }
    sizes.begin_step(options.lr);
    const double size = sizes.update(0, gradients, squares, terms, Floats(kCount));
    const std::vector<double> update = one.update(exact);
    found.push_back({norm(update), norm(minus(other.update(perturbed), update)), kError * size});
  }
  return found;
}

TEST(AdamSizes, BoundWhatErrorsOfGradientsDo) {
  for (const double beta1 : {0.9, 0.5, 0.0}) {
    for (const double epsilon : {1e-8, 1e-3}) {
      const ops::OptimizerOptions options{.kind = ops::OptimizerKind::adam,
                                          .lr = 0.01,
                                          .beta1 = beta1,
                                          .beta2 = 0.99,
                                          .epsilon = epsilon};
      for (unsigned seed = 1; seed <= 20; ++seed) {
        for (const Step& step : train(options, seed, 10, 7)) {
          EXPECT_LE(step.difference, step.bound) << beta1 << " " << epsilon << " " << seed;
        }
      }
    }
  }
}

// An update that is missed differs by all of it, where most gradients are above their rounding.
TEST(AdamSizes, StayBelowAnUpdate) {
  const ops::OptimizerOptions options{.kind = ops::OptimizerKind::adamw, .lr = 0.01};
  for (const Step& step : train(options, 1, 10, 3)) EXPECT_GT(step.update, 1.2 * step.bound);
}

TEST(AdamSizes, LeaveOutElementsWithoutGradients) {
  const ops::OptimizerOptions options{.kind = ops::OptimizerKind::adam, .lr = 0.01};
  AdamSizes sizes(options, kError);
  sizes.begin_step(options.lr);
  EXPECT_EQ(sizes.update(0, Floats(3), Floats(3), 5, Floats(3)), 0);
  // One whose slices cancel has terms that were rounded: it may move either way.
  sizes.begin_step(options.lr);
  EXPECT_GE(kError * sizes.update(1, Floats{0}, Floats{2e-6F}, 1e-3, Floats{1}), 0.01);
}

// The step is about the learning rate whatever the gradient, and so is its error where the gradient
// is nothing but rounding.
TEST(AdamSizes, AllowAWholeStepToWhatIsLostInRounding) {
  const ops::OptimizerOptions options{.kind = ops::OptimizerKind::adam, .lr = 0.01};
  AdamSizes sizes(options, kError);
  sizes.begin_step(options.lr);
  const Floats gradients = {1e-6F, 1e-6F}, squares = {1e-12F, 1e-12F};
  const double size = sizes.update(0, gradients, squares, std::sqrt(2.0), Floats(2));
  EXPECT_NEAR(kError * size, 2 * 0.01 * std::sqrt(2.0), 1e-3);
}

}  // namespace
}  // namespace ddpbench::bench
