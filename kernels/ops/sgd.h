// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SGD with momentum and weight decay over a flat buffer, as torch.optim.SGD without dampening or
// Nesterov: g' = g * grad_scale + weight_decay * w;  v = momentum * v + g';  w -= lr * v.
// Reads 3 and writes 2 words an element (momentum 0: reads 2, writes 1).
#pragma once

#include <cstddef>

#include "kernels/runtime/device.h"

namespace ddpbench::ops {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
};

struct SgdArgs {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* velocity = nullptr;  // may be null when momentum is 0
  std::size_t count = 0;      // elements, padding included (padding is zero and stays zero)
  float grad_scale = 1;
  SgdOptions options;
};

class Sgd {
 public:
  virtual ~Sgd() = default;
  virtual void run(Stream& stream, const SgdArgs& args) = 0;
};

}  // namespace ddpbench::ops
