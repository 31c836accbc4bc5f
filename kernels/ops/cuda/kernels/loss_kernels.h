// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy. A prediction has a warp, or, in maps and up to 32 classes, a thread, which
// reads its logits three times, from caches where they fit: up to 16 bytes and two exponentials a
// logit. Two launches; one where one block has all predictions. A batch of hundreds is bound by the
// launches.
//
// Exponentials and logarithms are in single precision, the sum over samples in double. The order of
// every sum depends only on the shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/flat_ops.h"

namespace ddpbench::ops::cuda {

// As CrossEntropyDesc says.
struct LossShape {
  std::uint32_t batch = 0, classes = 0, positions = 1;
  std::int32_t ignore_index = kIgnoresNothing;
  // `class_share` is what every class has of the target, `label_share` what the label has beyond.
  float label_share = 1, class_share = 0;
  float weight = 1;
  bool counts_hits = true;
};

// Of LossArgs::workspace: totals of the kernel's blocks.
std::size_t loss_workspace_bytes(const LossShape& shape);
cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
