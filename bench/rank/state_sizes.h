// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How large the numbers are that a step's statistics are made of. The rounding errors of running
// statistics are relative to them (docs/metrics.md, "Verification").
#pragma once

#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::bench {

// The size of each tensor of the state (nn::export_state), from its values before and after one
// forward pass in training. These give the mean and the standard deviation sigma of each channel in
// the batch. With the momentum m, the size of a running mean is the norm over channels of
// m (|mean| + sigma), that of a running variance the norm of m sigma (|mean| + sigma). The size of
// a count is 0, because counts are exact.
std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after);

}  // namespace ddpbench::bench
