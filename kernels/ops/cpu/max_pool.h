// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pool kernels over planes of pixels whose channels lie together: [h][w][inner].
//
// A plane is one 16- or 8-channel block of a blocked layout, a whole channels-last image, or one
// map of a plain layout (inner 1).
//
// Forward writes to `winners` the element of the window (kh index * kw + kw index) that each output
// came from, or kNoGradient where the fused ReLU is 0. So backward needs neither input nor output.
// The first of equal elements wins and NaN counts as largest, as in PyTorch.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/simd.h"
#include "kernels/ops/tensor_layout.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cpu {

struct PoolGeometry {
  std::int64_t height = 0, width = 0, out_h = 0, out_w = 0;
  std::int64_t inner = 0;  // channels of a pixel
  Window2d window;
  bool relu = false;

  std::int64_t input_elements() const { return height * width * inner; }
  std::int64_t output_elements() const { return out_h * out_w * inner; }
  // 2x2, stride 2, no padding: windows do not overlap and are never cut (odd edges are left out).
  bool is_halving() const { return window.is_tiling(2); }
};

// Maps have elements of fp32 or bf16. `winners` has output_elements() elements of winner_bytes
// each, of any alignment.
struct PoolKernel {
  void (*forward)(const PoolGeometry& geometry, const void* x, void* y, void* winners) = nullptr;
  // Writes all of dx. In bf16 a sum of the gradients of several windows is rounded after each.
  void (*backward)(const PoolGeometry& geometry, const void* dy, const void* winners,
                   void* dx) = nullptr;
  std::int64_t winner_bytes = 1;
};

// The kernel for a geometry: a vector kernel where inner is a multiple of its width and one byte
// can number the elements of a window. `level` is the highest level that may be chosen.
PoolKernel choose_pool_kernel(const PoolGeometry& geometry, SimdLevel level,
                              DataType type = DataType::fp32);

// The kernels of one instruction set. `halving`: the faster one, for is_halving() geometries.
// REQUIRES: an inner of whole vectors, fp32 for avx2, windows of at most 255 elements.
PoolKernel pool_kernel(SimdLevel level, bool halving, DataType type = DataType::fp32);

}  // namespace ddpbench::ops::cpu
