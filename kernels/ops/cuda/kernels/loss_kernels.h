// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy: a thread a row up to 32 classes, else a warp, in two launches; one up to
// 32 classes and 256 rows. Reads the logits, writes their gradient: 8 bytes a logit, and one
// exponential, of classes beyond 1024 two and 12 more bytes at most, which caches may hold; a batch
// of hundreds is bound by the launches.
//
// Exponentials and logarithms in single precision, the sum over samples in double. Every sum is
// taken in an order that depends on the shape only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/loss.h"

namespace ddpbench::ops::cuda {

struct LossShape {
  std::uint32_t batch = 0, classes = 0;
};

std::size_t loss_workspace_bytes(const LossShape& shape);
cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args, void* workspace,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
