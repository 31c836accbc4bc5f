// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of batch norm: sums over a channel, and passes that use them. A block sums a piece of
// one sample in fp32, and pieces are added in double. So however a batch is divided among devices,
// statistics differ by roundings of double, which seldom change the fp32 number made of them: in
// about one of 10^8, or of 10^4 where means are 100 deviations. All calls only queue work.
//
// With cuDNN's batch norm of channels-last maps in place of these, a step of ResNet-50 in bf16 took
// 8.4 times as long on an H200 (docs/performance.md).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Maps of one part of a batch, 16-byte aligned. REQUIRES: fewer than 2^31 elements.
struct NormShape {
  DataType type = DataType::fp32;
  std::uint32_t samples = 0, channels = 0, pixels = 0;
  bool channels_last = false;
  double eps = 0;
};

// How each channel is normalised. weight and bias are null where they are no parameters (1 and 0).
struct Affine {
  const float* mean = nullptr;
  const float* inv_std = nullptr;  // null: from `variance`
  const float* variance = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  float eps = 0;  // with `variance`
};

// Two numbers a channel, [2][channels]: of forward the sums of x and of x^2, of backward those of g
// and of g (x - mean), where g is the gradient in front of ReLU and sum.
using ChannelSums = double;

// What a sum needs: memory for the sums of all pieces.
std::size_t norm_workspace_bytes(const NormShape& shape);

struct Statistics {
  float *mean = nullptr, *inv_std = nullptr;  // of the batch
  float *running_mean = nullptr, *running_var = nullptr;
  std::int64_t* batches = nullptr;  // one more
  double momentum = 0;
};
// Statistics of x, which move the running ones towards the mean and the unbiased variance. Moves 1
// map. Two launches. Of a batch in parts of this shape only the sums of the own part, to `own`
// (else null); when those of all parts are there, [parts][2][channels], they give the statistics.
cudaError_t take_statistics(const NormShape& shape, const void* x, void* workspace,
                            const Statistics& to, ChannelSums* own, cudaStream_t stream);
cudaError_t join_statistics(const NormShape& shape, std::uint32_t parts, const ChannelSums* all,
                            const Statistics& to, cudaStream_t stream);

// y = (x - mean) inv_std weight + bias (+ addend), then rectified where `relu`. Moves 2 maps, with
// an addend 3.
struct Normalized {
  const void *x = nullptr, *addend = nullptr;
  void* y = nullptr;
  Affine by;
  bool relu = false;
};
cudaError_t normalize(const NormShape& shape, const Normalized& args, cudaStream_t stream);

// The gradient in front of ReLU and sum. Where `rectified` is not null it is written there (for the
// addend) by the sums, and input_gradient() reads it.
struct NormGradient {
  const void* x = nullptr;
  const void* output = nullptr;  // where rectified behind a sum: decides what was cut
  const void* grad_output = nullptr;
  void* rectified = nullptr;
  Affine by;
  bool relu = false;  // without `output` what was cut is computed again from x
};
struct ParameterGradients {
  float *weight = nullptr, *bias = nullptr;  // null: not wanted
  bool accumulate = false;
};
// Gradients of weight and bias by the own part's sums, and the sums of all to `factors`, [2]
// [channels], by which input_gradient() corrects. Moves 2 maps; with `output` and `rectified` 1
// more each. Two launches. Of a batch in parts the own sums go to `own`, as above.
cudaError_t sum_gradients(const NormShape& shape, const NormGradient& args, void* workspace,
                          const ParameterGradients& gradients, float* factors, ChannelSums* own,
                          cudaStream_t stream);
cudaError_t join_gradients(const NormShape& shape, std::uint32_t parts, const ChannelSums* all,
                           const Affine& by, float* factors, cudaStream_t stream);
// dx = weight inv_std (g - mean of g - x^ mean of g x^). Moves 3 maps, with `output` 4.
cudaError_t input_gradient(const NormShape& shape, const NormGradient& args, const float* factors,
                           void* dx, cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
