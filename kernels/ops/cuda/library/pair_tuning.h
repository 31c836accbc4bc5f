// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether two operations, one behind the other, are faster in one.
#pragma once

#include <string>

#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

// By the time of forward and backward, without the gradient of the first one's input, recorded and
// replayed on memory of their own: no more than what a step of the two apart touches. REQUIRES of
// all: one input; of `second`: no parameters, and a backward that reads neither input nor output.
// `where` begins what errors say. Throws NoPlanningMemory, or DeviceError where an operation cannot
// be recorded.
bool is_faster_in_one(const Context& context, Op& both, Op& first, Op& second,
                      const std::string& where);

}  // namespace ddpbench::ops::cuda
