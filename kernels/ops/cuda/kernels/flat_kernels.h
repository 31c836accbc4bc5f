// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over flat buffers: the optimizer's step, the mean, encodings, the gather of a batch and
// the loss.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/ops/encoding.h"
#include "kernels/ops/flat_ops.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::ops::cuda {

// One update of an optimizer, four elements a thread (optimizer.h has its bytes). Where updates are
// counted, a launch of one thread before it counts this one on the device. Throws as
// optimizer_state does.
cudaError_t optimizer_step(const OptimizerArgs& args, cudaStream_t stream);

// As OpBackend's: reads 4 bytes an element. The other is a launch of one thread.
cudaError_t find_overflow(const float* gradients, std::uint32_t count, LossScale* scale,
                          cudaStream_t stream);
cudaError_t end_scaled_step(LossScale* scale, cudaStream_t stream);

// The most buffers that one mean may have: their addresses are kernel arguments.
inline constexpr std::size_t kMaxMeanInputs = 256;
// out = (in_0 + ... + in_k-1) / k, in that order. Moves 4 (k + 1) bytes an element.
cudaError_t mean_of(std::span<const float* const> inputs, float* out, std::uint32_t count,
                    cudaStream_t stream);

// A cast takes a thread an element, and other encodings one a run (encoding.h).
cudaError_t encode(const EncodeArgs& args, cudaStream_t stream);
cudaError_t decode(const DecodeArgs& args, cudaStream_t stream);
// Two launches a column and pass: with a thread a column, then a row.
cudaError_t orthonormalize(const OrthonormalArgs& args, cudaStream_t stream);

// Gathers a batch from the samples of a data set in device memory. It reads 1 byte and writes 4
// bytes an element; bound by memory bandwidth.
// Queues the work. REQUIRES: at most kMaxGatherChannels channels; batch * sample_elements and
// batch * labels_per_sample < 2^31.
inline constexpr std::size_t kMaxGatherChannels = 8;
cudaError_t gather_batch(const GatherArgs& args, cudaStream_t stream);

// Of LossArgs::workspace: totals of the kernel's blocks. REQUIRES: fewer than 2^31 logits.
std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc);
cudaError_t softmax_cross_entropy(const CrossEntropyDesc& desc, const LossArgs& args,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
