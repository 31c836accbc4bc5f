// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy for CPU devices.
#pragma once

#include <memory>

#include "kernels/ops/loss.h"

namespace ddpbench::ops::cpu {

// `threads`: the device's team. Throws ConfigError for an empty batch or no classes.
std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(std::int64_t batch,
                                                                std::int64_t classes, int threads);

}  // namespace ddpbench::ops::cpu
