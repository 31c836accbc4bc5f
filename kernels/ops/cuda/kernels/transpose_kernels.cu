// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A block reads a tile of 32 x 32 elements row by row and writes it column by column. All reads of
// a thread are in flight before it stores the first.
#include "kernels/ops/cuda/kernels/transpose_kernels.h"

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kTile = 32;
constexpr std::uint32_t kRowThreads = 8;
constexpr std::uint32_t kSteps = kTile / kRowThreads;  // elements of a thread

template <typename From, typename To>
struct TransposeTiles {
  static constexpr std::uint32_t kThreads = kTile * kRowThreads;
  static constexpr int kPhases = 2;
  struct Shared {
    float tile[kTile][kTile + 1];  // the odd length keeps a column's elements in different banks
  };

  std::uint32_t rows, columns;
  Divisor row_tiles, column_tiles;
  const From* from;
  To* to;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kTile, first = thread / kTile;
    std::uint32_t matrix = block;
    const std::uint32_t column = column_tiles.split(matrix) * kTile;
    const std::uint32_t row = row_tiles.split(matrix) * kTile;
    matrix *= rows * columns;
    if (phase == 0 && column + lane < columns) {
      float values[kSteps];
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        const std::uint32_t at = row + first + i * kRowThreads;
        values[i] = at < rows ? to_float(from[matrix + at * columns + column + lane]) : 0.0F;
      }
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        shared.tile[first + i * kRowThreads][lane] = values[i];
      }
    }
    if (phase == 1 && row + lane < rows) {
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kSteps; ++i) {
        const std::uint32_t k = first + i * kRowThreads, at = column + k;
        if (at < columns) {
          to[matrix + at * rows + row + lane] = from_float<To>(shared.tile[lane][k]);
        }
      }
    }
  }
};

}  // namespace

cudaError_t transpose(const Transpose& args, cudaStream_t stream) {
  // With one row or column only the type changes.
  if (args.rows == 1 || args.columns == 1) {
    return convert_type(args.from_type, args.from, args.to_type, args.to, false,
                        args.batch * args.rows * args.columns, stream);
  }
  return with_element_type(args.from_type, [&](auto from_element) {
    return with_element_type(args.to_type, [&](auto to_element) {
      using From = decltype(from_element);
      using To = decltype(to_element);
      TransposeTiles<From, To> body{};
      body.rows = args.rows;
      body.columns = args.columns;
      const std::uint32_t row_tiles = ceil_div(args.rows, kTile);
      const std::uint32_t column_tiles = ceil_div(args.columns, kTile);
      body.row_tiles = Divisor(row_tiles);
      body.column_tiles = Divisor(column_tiles);
      body.from = static_cast<const From*>(args.from);
      body.to = static_cast<To*>(args.to);
      return for_each_block(args.batch * row_tiles * column_tiles, stream, body);
    });
  });
}

}  // namespace ddpbench::ops::cuda
