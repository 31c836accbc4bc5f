// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The own operations of CPU devices: those that oneDNN does not have or has slower.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/encoding.h"
#include "kernels/ops/flat_ops.h"
#include "kernels/ops/op.h"
#include "kernels/ops/optimizer.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::cpu {

std::unique_ptr<Op> make_op(Team team, const BatchNorm2dDesc& desc);
std::unique_ptr<Op> make_op(Team team, const MaxPool2dDesc& desc);
std::unique_ptr<Op> make_op(Team team, const ActivationDesc& desc);
std::unique_ptr<Op> make_op(Team team, const AddDesc& desc);
std::unique_ptr<Op> make_op(Team team, const AvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(Team team, const AdaptiveAvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(Team team, const UpsampleBilinearDesc& desc);
std::unique_ptr<Op> make_op(Team team, const ConcatDesc& desc);
std::unique_ptr<Op> make_op(Team team, const DropoutDesc& desc);
// On the own Winograd kernels. `l2_bytes`: the cache of a core; with AVX-512 the maps have the type
// `maps`, else fp32. Throws ConfigError for a shape without a result, DeviceError for a convolution
// that Winograd cannot compute (has_winograd) and for a processor without AVX2.
std::unique_ptr<Op> make_winograd_conv2d(Team team, std::size_t l2_bytes, DataType maps,
                                         const Conv2dDesc& desc);

// As OpBackend's.
void mean(Team team, std::span<const float* const> inputs, float* out, std::size_t count);
void update(Team team, const OptimizerArgs& args);
void find_overflow(Team team, const float* gradients, std::int64_t count, LossScale* scale);
void encode(Team team, const EncodeArgs& args);
void decode(Team team, const DecodeArgs& args);
void orthonormalize(const OrthonormalArgs& args);
void softmax_cross_entropy(int threads, const CrossEntropyDesc& desc, const LossArgs& args);

// Transposes between pixels with their channels together, [pixels][inner], and plain maps,
// [channels][pixels]: maps[c][p] = blocked[p][c] for the first `channels` of `inner` channels. It
// moves each element, float or BFloat16, once and is meant for blocks in the L1 cache.
template <typename T>
void blocked_to_maps(std::int64_t pixels, std::int64_t inner, const T* blocked, T* maps,
                     std::int64_t channels);
// The same back; the channels past `channels` become 0.
template <typename T>
void maps_to_blocked(std::int64_t pixels, std::int64_t inner, const T* maps, T* blocked,
                     std::int64_t channels);

}  // namespace ddpbench::ops::cpu
