// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a batch norm behind a layer leaves of the gradients of its parameters. A shift of a channel
// it subtracts with the mean, so the gradient of a bias is zero but for rounding. By the size of a
// channel, or of all, it divides; so the gradient of the m numbers that scale it is orthogonal to
// them: m - 1 directions are left, and none of one. In the same way the gradient of the N values of
// a channel keeps N - 2 of N directions, and none of two; all layers in front are trained by it.
// The rounding errors are those of the terms that cancel.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// The shares of the directions that are left, from 0 up to, not including, 1, by the parameters'
// names as in checkpoints ("conv1.bias"). Parameters that keep all are missing. `batch`: the
// samples over which batch norm takes its statistics.
std::map<std::string, double> gradient_shares(const nn::ModelSpec& model, std::int64_t batch);

}  // namespace ddpbench::bench
