// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The values of weights and biases at step 0. They come from a counter-based generator
// (Philox4x32-10, Salmon et al., SC'11): element k of tensor t depends only on (seed, t's name, k).
// Every operation on the way is one that IEEE 754 rounds exactly, so all machines have equal bits,
// and so has the PyTorch peer (bench/peers/pytorch_peer/initializer.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/nn/plan/parameter_plan.h"

namespace ddpbench::nn {

// The values of a parameter in its PyTorch layout. One with a start value (batch norm: weight 1,
// bias 0) has that; others are drawn as `init` says.
std::vector<float> start_values(const ParameterInfo& parameter, const Init& init,
                                std::uint64_t seed);

}  // namespace ddpbench::nn
