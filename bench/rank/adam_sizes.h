// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AdamSizes: how far the rounding errors of gradients move the updates of Adam and AdamW.
//
// Such an update is m / (sqrt(v) + epsilon) for means m and v of gradients and their squares: it is
// about as long as the learning rate for every element, however small the gradient. An element
// whose gradient is nothing but rounding takes a whole step in any direction. So the bound is taken
// element by element, from the size of each element's own m and v (docs/metrics.md, "Tolerance").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/optimizer.h"

namespace ddpbench::bench {

class AdamSizes {
 public:
  // `error`: the bound on the error of a gradient relative to its terms, above 0
  // (report::verification_tolerance).
  AdamSizes(const ops::OptimizerOptions& options, double error);

  // Begins the next update, with the rate `lr`. Each tensor's update() follows once.
  void begin_step(double lr);
  // Returns the size of the update of tensor `tensor`: if the gradients' relative error is at most
  // `error`, the update is wrong by at most `error` times this size (in the 2-norm). `gradients`:
  // the sum over all slices, before weight decay. `slice_squares`: of each element, the sum over
  // slices of its squared gradients; 0 only where no computation has a gradient. `terms`: the
  // 2-norm of what the gradients of the tensor were added up from. `weights`: before the update.
  double update(std::size_t tensor, std::span<const float> gradients,
                std::span<const float> slice_squares, double terms, std::span<const float> weights);

 private:
  struct Moments {
    std::vector<float> mean, square;  // as the optimizer's slots
    // Bounds on the error of the mean, and on the squared error of the square's root.
    std::vector<float> mean_error, square_error;
  };
  // The most that |m / sqrt(v)| can be after so many updates (Cauchy and Schwarz).
  double largest_ratio() const;

  ops::OptimizerOptions options_;
  double error_;
  std::int64_t step_ = 0;
  double lr_ = 0;
  double mean_weight_ = 1, square_weight_ = 1;  // 1 - beta^step
  double ratio_ = 1;
  std::vector<Moments> tensors_;
};

}  // namespace ddpbench::bench
