// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Transposes in 4x4 tiles of vectors of 4 elements, which every 64-bit processor has. That is 5
// times as fast as float by float on SimpleCNN's 49 pixels of 16 channels. Elements of bf16 move as
// the 16 bits that they are.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

constexpr std::int64_t kTile = 4;
template <typename Bits>
using Row __attribute__((vector_size(kTile * sizeof(Bits)))) = Bits;

template <typename T>
auto load(const T* from) {
  Row<std::conditional_t<sizeof(T) == 2, std::uint16_t, float>> row;
  std::memcpy(&row, from, sizeof row);
  return row;
}

template <typename T, typename Row>
void store(T* to, Row row) {
  std::memcpy(to, &row, sizeof row);
}

// to[j][i] = from[i][j] of a 4x4 tile; strides are the distances of rows.
template <typename T>
void transpose_tile(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  const auto a = load(from), b = load(from + from_stride);
  const auto c = load(from + 2 * from_stride), d = load(from + 3 * from_stride);
  const auto ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);   // a0 b0 a1 b1
  const auto ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);  // a2 b2 a3 b3
  const auto cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const auto cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(to + to_stride, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(to + 2 * to_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(to + 3 * to_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// to[j][i] = from[i][j] for rows x columns.
template <typename T>
void transpose(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t columns) {
  const std::int64_t tiled_rows = rows / kTile * kTile, tiled_columns = columns / kTile * kTile;
  for (std::int64_t i = 0; i < tiled_rows; i += kTile)
    for (std::int64_t j = 0; j < tiled_columns; j += kTile)
      transpose_tile(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < tiled_rows ? tiled_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

}  // namespace

template <typename T>
void blocked_to_maps(std::int64_t pixels, std::int64_t inner, const T* blocked, T* maps,
                     std::int64_t channels) {
  transpose(blocked, inner, maps, pixels, pixels, channels);
}

template <typename T>
void maps_to_blocked(std::int64_t pixels, std::int64_t inner, const T* maps, T* blocked,
                     std::int64_t channels) {
  if (channels < inner) std::fill_n(blocked, pixels * inner, T{});
  transpose(maps, pixels, blocked, inner, channels, pixels);
}

#define DDPBENCH_TRANSPOSE(T)                                                            \
  template void blocked_to_maps(std::int64_t, std::int64_t, const T*, T*, std::int64_t); \
  template void maps_to_blocked(std::int64_t, std::int64_t, const T*, T*, std::int64_t);
DDPBENCH_TRANSPOSE(float)
DDPBENCH_TRANSPOSE(BFloat16)

}  // namespace ddpbench::ops::cpu
