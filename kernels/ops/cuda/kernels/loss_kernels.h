// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy. A row has one thread up to 32 classes, else a warp. Two launches; one up
// to 32 classes and 256 rows. It reads the logits and writes their gradient: 8 bytes and one
// exponential a logit. Classes beyond 1024 cost two exponentials and up to 12 more bytes, which
// caches may hold. A batch of hundreds is bound by the launches. For maps, each pixel has a thread,
// which reads its logits three times, from caches where they fit: up to 16 bytes and two
// exponentials a logit.
//
// Exponentials and logarithms are in single precision, the sum over samples in double. The order of
// every sum depends only on the shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/cuda/kernels/loss_shape.h"
#include "kernels/ops/flat_ops.h"

namespace ddpbench::ops::cuda {

// Of LossArgs::workspace: totals of the kernel's blocks.
std::size_t loss_workspace_bytes(const LossShape& shape);
cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
