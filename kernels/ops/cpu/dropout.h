// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Dropout on CPU devices. The mask depends only on the seed, the step and each sample's place in
// the global batch (dropout_mask.h), so it is the same on any number of devices.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/dropout_mask.h"

namespace ddpbench::ops::cpu {

// y = x * (0 or mask.scale) over [samples, elements] in plain order; `kept` gets 0 or 1 an element.
void dropout_forward(Team team, const DropoutMask& mask, const RandomDraw& draw,
                     std::int64_t samples, std::int64_t elements, const float* x, float* y,
                     std::uint8_t* kept);
// dx = dy * (0 or scale).
void dropout_backward(Team team, const std::uint8_t* kept, float scale, const float* dy, float* dx,
                      std::int64_t count);

}  // namespace ddpbench::ops::cpu
