// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A block adds up a chunk of rows of some columns. Several threads share a column: each sums rows
// of its own, then their sums are added in order. Where there are many rows, and their length
// allows it, a thread has as many neighbouring columns as 16 bytes hold. The sums of several chunks
// are the rows of a second, small matrix, whose columns have 32 threads each. That one has few
// blocks, so that the latency of successive reads counts.
//
// Reads are batched by hand. The compiler may not move a read past a write that may have the same
// address, nor past the test for the end of a loop.
#include "kernels/ops/cuda/kernels/column_sums.h"

#include <algorithm>

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kColumns = 32;  // a warp reads 32 neighbours
constexpr std::uint32_t kReads = 4;     // rows whose reads are in flight together
// Up to this many rows one launch is as fast as two.
constexpr std::uint32_t kRowsOfOneChunk = 512;

// The blocks of sums over many rows that a multiprocessor holds at once. In bf16 a thread has 8
// columns and needs 75 registers.
template <typename T>
inline constexpr int kBlocksOf = sizeof(T) == 4 ? 4 : 3;
// The chunks that a GPU of 128 multiprocessors holds at once. A few more would wait for all of
// these.
template <typename T>
inline constexpr std::uint32_t kMaxChunks = 128 * kBlocksOf<T>;

template <typename T>
std::uint32_t chunk_count(std::uint32_t rows) {
  if (rows <= kRowsOfOneChunk) return 1;
  return std::min(ceil_div(rows, kRowsOfOneChunk / 2), kMaxChunks<T>);
}

// Each thread has kWidth neighbouring columns.
template <typename T, std::uint32_t kWidth>
struct ChunkSums {
  static constexpr std::uint32_t kThreads = 256;
  static constexpr int kPhases = 2, kBlocksAtOnce = kBlocksOf<T>;
  struct Shared {
    float sums[kThreads * kWidth];  // [row threads][columns of the block]
  };

  std::uint32_t rows, columns, rows_per_chunk;
  Divisor tiles;
  std::uint32_t lane_bits;  // threads of a row
  const T *gradient, *output;
  T* masked;
  float* sums;  // [chunks][columns]; null: not wanted
  bool accumulate;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t tile_columns = kWidth << lane_bits;
    std::uint32_t chunk = block;
    const std::uint32_t first = tiles.split(chunk) * tile_columns;
    if (phase == 0) {
      const std::uint32_t lane = thread & ((1U << lane_bits) - 1);
      const std::uint32_t column = first + lane * kWidth;
      float total[kWidth] = {};
      if (column < columns) sum_rows(chunk, thread >> lane_bits, column, total);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kWidth; ++k) shared.sums[thread * kWidth + k] = total[k];
    } else if (sums != nullptr) {
      for (std::uint32_t i = thread; i < tile_columns && first + i < columns; i += kThreads) {
        float sum = 0;
        for (std::uint32_t at = i; at < kThreads * kWidth; at += tile_columns) {
          sum += shared.sums[at];
        }
        float* const to = sums + chunk * columns + first + i;
        *to = accumulate ? *to + sum : sum;
      }
    }
  }

  // Sums those of the chunk's rows that belong to one row thread, in order.
  __host__ __device__ void sum_rows(std::uint32_t chunk, std::uint32_t part, std::uint32_t column,
                                    float (&total)[kWidth]) const {
    const std::uint32_t row_threads = kThreads >> lane_bits, begin = chunk * rows_per_chunk + part;
    const std::uint32_t chunk_end = (chunk + 1) * rows_per_chunk;
    const std::uint32_t end = chunk_end < rows ? chunk_end : rows;
    const std::uint32_t count = begin < end ? ceil_div(end - begin, row_threads) : 0;
    const std::uint32_t step = row_threads * columns;
    std::uint32_t at = begin * columns + column;
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = 0; i < count / kReads; ++i, at += kReads * step) {
      add_rows<kReads>(at, step, total);
    }
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = 0; i < count % kReads; ++i, at += step) add_rows<1>(at, step, total);
  }

  template <std::uint32_t kRows>
  __host__ __device__ void add_rows(std::uint32_t at, std::uint32_t step,
                                    float (&total)[kWidth]) const {
    float values[kRows][kWidth], outputs[kRows][kWidth];
    DDPBENCH_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) load(gradient + at + r * step, values[r]);
    if (output != nullptr) {
      DDPBENCH_UNROLL
      for (std::uint32_t r = 0; r < kRows; ++r) load(output + at + r * step, outputs[r]);
    }
    DDPBENCH_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kWidth; ++k) {
        if (output != nullptr) values[r][k] = relu_gradient(outputs[r][k], values[r][k]);
        total[k] += values[r][k];
      }
      if (output != nullptr) store(masked + at + r * step, values[r]);
    }
  }
};

struct WriteSum {
  RowSums args;

  __host__ __device__ void operator()(std::uint32_t column, const float (&sums)[1]) const {
    const bool first = column < args.split;
    float* const to = first ? args.sums : args.rest;
    if (to == nullptr) return;
    const std::uint32_t at = first ? column : column - args.split;
    to[at] = args.accumulate ? to[at] + sums[0] : sums[0];
  }
};

template <typename T, std::uint32_t kWidth>
cudaError_t sum_chunks(const ColumnSums& args, float* sums, std::uint32_t chunks,
                       cudaStream_t stream) {
  ChunkSums<T, kWidth> body{};
  body.rows = args.rows;
  body.columns = args.columns;
  while (body.lane_bits < 5 && (kWidth << body.lane_bits) < args.columns) ++body.lane_bits;
  const std::uint32_t tiles = ceil_div(args.columns, kWidth << body.lane_bits);
  body.tiles = Divisor(tiles);
  body.rows_per_chunk = ceil_div(args.rows, chunks);
  body.gradient = static_cast<const T*>(args.gradient);
  body.output = static_cast<const T*>(args.output);
  body.masked = static_cast<T*>(args.masked);
  body.sums = sums;
  body.accumulate = args.accumulate && chunks == 1;
  return for_each_block(tiles * chunks, stream, body);
}

}  // namespace

std::size_t column_sums_workspace_bytes(std::uint32_t rows, std::uint32_t columns) {
  const std::uint32_t chunks = chunk_count<float>(rows);  // the most of any type
  return chunks == 1 ? 0 : sizeof(float) * chunks * columns;
}

cudaError_t column_sums(const ColumnSums& args, cudaStream_t stream) {
  auto* const partial = static_cast<float*>(args.workspace);
  std::uint32_t chunks = 1;
  const cudaError_t status = with_element_type(args.type, [&]<typename T>(T) {
    chunks = chunk_count<T>(args.rows);
    float* const sums = chunks == 1 || args.sums == nullptr ? args.sums : partial;
    // With few rows each thread has one column, for more blocks. The width decides the order of the
    // sums, so only the shape decides it.
    constexpr std::uint32_t kWidth = kVectorOf<T>;
    return chunks > 1 && args.columns % kWidth == 0
               ? sum_chunks<T, kWidth>(args, sums, chunks, stream)
               : sum_chunks<T, 1>(args, sums, chunks, stream);
  });
  if (status != cudaSuccess || chunks == 1 || args.sums == nullptr) return status;
  return add_up_rows({.rows = chunks,
                      .columns = args.columns,
                      .matrix = partial,
                      .sums = args.sums,
                      .split = args.columns,
                      .accumulate = args.accumulate},
                     stream);
}

cudaError_t add_up_rows(const RowSums& args, cudaStream_t stream) {
  // Many reads in flight: a block alone has only its own.
  constexpr std::uint32_t kParts = 32, kRowReads = 8;
  const AddUpRows<float, 1, kColumns, kParts, kRowReads, WriteSum> body{
      args.matrix, args.rows, args.columns, {args}};
  return for_each_block(ceil_div(args.columns, kColumns), stream, body);
}

}  // namespace ddpbench::ops::cuda
