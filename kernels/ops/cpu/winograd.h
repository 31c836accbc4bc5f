// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// 3x3 convolution of stride 1 as Winograd's F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", CVPR 2016), on blocked channels.
//
// An output is cut into tiles of 4x4, each of which reads 6x6 inputs. In the transformed domain a
// tile has 36 elements a channel, and each of the 36 is a matrix product of its own over channels:
//
//   forward           Y = A'[(G w G') * (B' x B)]A     4 times fewer multiplications than direct
//   backward data     the same, of the output gradient and the turned weights
//   backward weights  dW = A3'[(G4 dy G4') * (B' x B)]A3, F(3x3, 4x4), summed over all tiles
//
// Tiles are worked on in groups that fit the L2 cache, so transformed maps never go to memory. Each
// thread takes some of the tiles, and for backward weights some of the products over all threads'
// groups, so that there is one set of sums: 36 * in * out floats (38 MB for 512 channels).
//
// Tensors: maps [batch][channels / block][height][width][block]; weights [out / block][in / block]
// [3][3][block of in][block of out]. The channels that fill up the last block are 0 and stay 0.
// Maps are fp32, with AVX-512 also bf16; transforms and products are fp32 in both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cpu {

inline constexpr std::int64_t kWinogradTile = 4;       // outputs of a tile in one direction
inline constexpr std::int64_t kWinogradProducts = 36;  // matrix products

// Maps from `in` to `out`, channels in blocks.
struct WinogradShape {
  std::int64_t batch = 0;
  std::int64_t in_blocks = 0, height = 0, width = 0;
  std::int64_t out_blocks = 0, out_h = 0, out_w = 0;
  std::int64_t pad_h = 0, pad_w = 0;  // 0 to 2

  std::int64_t tiles_h() const { return (out_h + kWinogradTile - 1) / kWinogradTile; }
  std::int64_t tiles_w() const { return (out_w + kWinogradTile - 1) / kWinogradTile; }
  std::int64_t tiles() const { return batch * tiles_h() * tiles_w(); }
  std::int64_t gradient_parts() const { return kWinogradProducts * ((out_blocks + 1) / 2); }
};

// Whether Winograd can compute it: only 3x3, stride 1, no groups, no dilation, padding at most 2.
bool has_winograd(const Conv2dDesc& desc);
// The shape of its maps, in blocks of so many channels. REQUIRES: has_winograd(desc).
WinogradShape winograd_shape(const Conv2dDesc& desc, std::int64_t block);

// Some of the tiles, which count through columns, rows and samples.
struct WinogradTiles {
  std::int64_t first = 0, count = 0;
};

// The loops of one instruction set. Each works on one group of tiles, or some channel blocks, with
// one thread. Transformed maps are [36][channels / block][tiles][block]; transformed weights
// [36][out / block][in][block of out]. `stride` is the distance of two of the 36, in floats.
struct WinogradKernel {
  std::int64_t block = 0;  // channels of a block: the floats of a vector

  // Transforms the weights of the output blocks [begin, end). `turned`: into those of backward
  // data, whose inputs are the outputs and whose kernel is turned by 180 degrees.
  void (*transform_weights)(const WinogradShape& shape, const float* weights, bool turned,
                            std::int64_t begin, std::int64_t end, float* to,
                            std::int64_t stride) = nullptr;
  void (*transform_input)(const WinogradShape& shape, WinogradTiles tiles, const void* x, float* to,
                          std::int64_t stride) = nullptr;
  // products[36][out / block][tiles][block] = inputs times weights.
  void (*multiply)(const WinogradShape& shape, std::int64_t tiles, const float* inputs,
                   std::int64_t input_stride, const float* weights, std::int64_t weight_stride,
                   float* products, std::int64_t product_stride) = nullptr;
  // `bias` may be null.
  void (*transform_output)(const WinogradShape& shape, WinogradTiles tiles, const float* products,
                           std::int64_t stride, const float* bias, bool relu, void* y) = nullptr;

  // Prepares backward weights, and adds each channel's sum over the tiles to `bias_gradient`.
  void (*transform_gradient)(const WinogradShape& shape, WinogradTiles tiles, const void* dy,
                             float* to, std::int64_t stride, float* bias_gradient) = nullptr;
  // sums, as transformed weights, (+)= inputs times gradients, over tiles: a part of
  // gradient_parts(), one of the 36 products for two of the output blocks.
  void (*multiply_gradient)(const WinogradShape& shape, std::int64_t part, std::int64_t tiles,
                            const float* inputs, std::int64_t input_stride, const float* gradients,
                            std::int64_t gradient_stride, bool add, float* sums,
                            std::int64_t sum_stride) = nullptr;
  // weight gradient (+)= the sums transformed back, of the output blocks [begin, end).
  void (*transform_sums)(const WinogradShape& shape, const float* sums, std::int64_t stride,
                         bool add, std::int64_t begin, std::int64_t end,
                         float* weight_gradient) = nullptr;
};

WinogradKernel winograd_kernel_avx512(DataType maps = DataType::fp32);  // blocks of 16 channels
WinogradKernel winograd_kernel_avx2();                                  // of 8; fp32

}  // namespace ddpbench::ops::cpu
