// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Gathers a batch from the samples of a data set in device memory. It reads 1 byte and writes 4
// bytes an element; bound by memory bandwidth.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/ops/batch_gather.h"

namespace ddpbench::ops::cuda {

// Queues the work. REQUIRES: at most kMaxGatherChannels channels; batch * sample_elements and
// batch * labels_per_sample < 2^31.
inline constexpr std::size_t kMaxGatherChannels = 8;
cudaError_t gather_batch(const GatherArgs& args, cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
