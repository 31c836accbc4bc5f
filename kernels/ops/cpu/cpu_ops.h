// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations for CPU devices that oneDNN does not have.
#pragma once

#include <memory>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/flat_ops.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::ops::cpu {

std::unique_ptr<Mean> make_mean(Team team);

std::unique_ptr<Optimizer> make_optimizer(Team team);

// `threads`: the device's team. Throws ConfigError as check_loss() does.
std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(const CrossEntropyDesc& desc,
                                                                int threads);

}  // namespace ddpbench::ops::cpu
