// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's default initialisation from a counter-based generator (Philox4x32-10, Salmon et al.,
// SC'11): the value of element k of tensor t depends on (seed, t's name, k) alone, so it is the
// same on every strategy, world size, layout and device.
#pragma once

#include <cstdint>

#include "kernels/nn/graph.h"

namespace ddpbench::nn {

// Weights and biases ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in)), what nn.Conv2d and nn.Linear do by
// default (kaiming_uniform with a = sqrt(5)). Blocks until the weights are on the device.
void initialize_parameters(Graph& graph, std::uint64_t seed);

}  // namespace ddpbench::nn
