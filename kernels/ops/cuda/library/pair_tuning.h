// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether two operations, one after the other, are faster as one.
#pragma once

#include <string>

#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

// Compares the times of forward and backward, without the gradient of the first one's input. Both
// ways are recorded and replayed on memory that is allocated for it, no more than one step of the
// two separate operations uses. REQUIRES: all have one input; `second` has no parameters, and its
// backward reads neither
// input nor output. `where` begins error messages. Throws NoPlanningMemory, or DeviceError where an
// operation cannot be recorded.
bool is_faster_in_one(const Context& context, Op& both, Op& first, Op& second,
                      const std::string& where);

}  // namespace ddpbench::ops::cuda
