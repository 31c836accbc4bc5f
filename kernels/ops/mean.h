// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mean of several buffers, element by element: out = (in_0 + in_1 + ... + in_k-1) / k. The sum has
// that order, so that equal inputs give bit-equal results. It reads k words and writes 1 word an
// element.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/runtime/device.h"

namespace ddpbench::ops {

class Mean {
 public:
  virtual ~Mean() = default;
  // `out` may be one of the inputs. REQUIRES: inputs is not empty.
  virtual void run(Stream& stream, std::span<const float* const> inputs, float* out,
                   std::size_t count) = 0;
};

}  // namespace ddpbench::ops
