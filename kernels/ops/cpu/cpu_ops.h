// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The own operations of CPU devices: those that oneDNN does not have or has slower.
#pragma once

#include <cstddef>
#include <memory>

#include "base/error.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/encoding.h"
#include "kernels/ops/flat_ops.h"
#include "kernels/ops/op.h"
#include "kernels/ops/optimizer.h"
#include "kernels/runtime/bfloat16.h"
#include "kernels/runtime/data_type.h"

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

// ---- loops over memory that several operations need ----
//
// In the order of memory, so they fit every layout, padding included.

// Calls body(T()) for the type of the elements, fp32 or bf16.
template <typename Body>
void with_element(DataType type, const Body& body) {
  ensure(type == DataType::fp32 || type == DataType::bf16, "no kernels for elements of {}",
         to_string(type));
  if (type == DataType::bf16) return body(BFloat16{});
  body(float{});
}

// The elements are fp32 or bf16; each result is rounded once. The pointers of one call may be
// equal, but not overlap otherwise.
void activate(Team team, Activation kind, DataType type, const void* x, void* y,
              std::int64_t count);
void activation_backward(Team team, Activation kind, DataType type, const void* y, const void* dy,
                         void* dx, std::int64_t count);
void add(Team team, DataType type, const void* a, const void* b, void* sum, std::int64_t count);
// sums[j] (+)= sum over rows i of matrix[i, j], rows in order.
void column_sums(Team team, DataType type, const void* matrix, std::int64_t rows,
                 std::int64_t columns, float* sums, bool accumulate);

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
