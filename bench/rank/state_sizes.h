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

// For each tensor of the state (nn::export_state), which one forward in training moved from
// `before` to `after`. With m the momentum, and the batch's mean and standard deviation sigma of
// each channel as the two tell them: the norm over channels of m (|mean| + sigma) for a running
// mean, of m sigma (|mean| + sigma) for a running variance; 0 for a count, which is exact.
std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after);

}  // namespace ddpbench::bench
