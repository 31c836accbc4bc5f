// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What training a network costs a sample, from its description alone.
#pragma once

#include <cstdint>

#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

struct ModelCost {
  std::int64_t parameters = 0;
  // Floating-point operations a sample: two for each multiplication with an addition of
  // convolutions and linear layers. Bias, ReLU, pooling and sums, which are not counted, add about
  // 1 %. Backward computes the gradients of weights and of inputs, each with as many operations as
  // forward; inputs that depend on no parameters get none.
  double forward_flops = 0, backward_flops = 0;
  // The outputs of all layers in fp32, a sample. A ReLU that alone reads its input works in place.
  std::int64_t activation_bytes = 0;

  std::int64_t gradient_bytes() const {
    return parameters * static_cast<std::int64_t>(sizeof(float));
  }
  double step_flops() const { return forward_flops + backward_flops; }
  // What a step sends for what it computes: bytes of gradient per floating-point operation of one
  // sample, forward and backward. A batch of n samples a device divides it by n. 0 for a network
  // without operations that count.
  double gradient_bytes_per_flop() const {
    return step_flops() > 0 ? static_cast<double>(gradient_bytes()) / step_flops() : 0;
  }
};

ModelCost cost_of(const ModelSpec& model);

}  // namespace ddpbench::nn
