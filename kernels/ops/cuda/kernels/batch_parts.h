// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of batch norm over a batch in several parts. cuDNN sees only the part on its device,
// so these combine the statistics of all. Values of channels are fp32. All calls only queue work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// The shape of all parts.
struct NormParts {
  std::uint32_t channels = 0;
  std::uint32_t parts = 1;
  double values = 0;  // of a channel in one part
  double eps = 0;
};

// Computes mean, 1 / sqrt(var + eps) and variance over all parts from the mean and 1 / sqrt(var +
// eps) of each, [parts][2][channels]. Moves the running statistics towards the mean and the
// unbiased variance.
struct JoinedStatistics {
  const float* gathered = nullptr;
  float *mean = nullptr, *inv_std = nullptr, *variance = nullptr;
  float *running_mean = nullptr, *running_var = nullptr;
  double momentum = 0;
};
cudaError_t join_statistics(const NormParts& norm, const JoinedStatistics& args,
                            cudaStream_t stream);

// cuDNN's input gradient contains a correction from the sums over its own part. dx += scale + slope
// (x - mean) replaces it by the correction from the sums over all parts. `own` has the part's sums
// of g x^ and of g, [2][channels]; `gathered` those of every part.
struct CorrectedGradient {
  DataType type = DataType::fp32;
  const void* x = nullptr;
  void* dx = nullptr;
  const float *own = nullptr, *gathered = nullptr;
  const float *weight = nullptr, *mean = nullptr, *inv_std = nullptr;
  float* factors = nullptr;  // [2][channels], memory for the kernel
  std::uint32_t count = 0;   // of elements
  std::uint32_t pixels = 1;  // between a value and that of the next channel
};
cudaError_t correct_gradient(const NormParts& norm, const CorrectedGradient& args,
                             cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
