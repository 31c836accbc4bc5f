// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A block adds up a chunk of rows of 32 columns: 8 threads a column, then their 8 sums in order.
// With several chunks their sums are the rows of a second, small matrix, whose columns have 32
// threads each: few blocks, so that the time of one read after the other is what counts.
#include "kernels/ops/cuda/column_sums.h"

#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kColumns = 32;  // of a block: a warp reads 32 neighbours
constexpr std::uint32_t kRowThreads = 8;
// Up to this many rows one launch is as fast as two.
constexpr std::uint32_t kRowsOfOneChunk = 512;
constexpr std::uint32_t kMaxChunks = 512;

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

std::uint32_t chunk_count(std::uint32_t rows) {
  if (rows <= kRowsOfOneChunk) return 1;
  const std::uint32_t chunks = ceil_div(rows, kRowsOfOneChunk / 2);
  return chunks < kMaxChunks ? chunks : kMaxChunks;
}

template <typename T>
struct ChunkSums {
  static constexpr std::uint32_t kThreads = kColumns * kRowThreads;
  static constexpr int kPhases = 2;
  struct Shared {
    float sums[kRowThreads][kColumns];
  };

  std::uint32_t rows, columns, tiles, rows_per_chunk;
  const T *gradient, *output;
  T* masked;
  float* sums;  // [chunks][columns]; null: not wanted
  bool accumulate;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kColumns, part = thread / kColumns;
    const std::uint32_t column = block % tiles * kColumns + lane, chunk = block / tiles;
    if (phase == 0) {
      shared.sums[part][lane] = column < columns ? part_of_chunk(chunk, part, column) : 0.0F;
    } else if (part == 0 && column < columns && sums != nullptr) {
      float sum = 0;
      for (std::uint32_t i = 0; i < kRowThreads; ++i) sum += shared.sums[i][lane];
      float* const to = sums + chunk * columns + column;
      *to = accumulate ? *to + sum : sum;
    }
  }

  // Every kRowThreads-th row of the chunk.
  __host__ __device__ float part_of_chunk(std::uint32_t chunk, std::uint32_t part,
                                          std::uint32_t column) const {
    const std::uint32_t begin = chunk * rows_per_chunk;
    const std::uint32_t end = begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
    float sum = 0;
    DDPBENCH_UNROLL_BY(4)
    for (std::uint32_t row = begin + part; row < end; row += kRowThreads) {
      const std::uint32_t at = row * columns + column;
      float value = to_float(gradient[at]);
      if (output != nullptr) {
        value = relu_gradient(to_float(output[at]), value);
        masked[at] = from_float<T>(value);
      }
      sum += value;
    }
    return sum;
  }
};

struct AddUpRows {
  static constexpr std::uint32_t kParts = 32;  // threads of a column
  static constexpr std::uint32_t kThreads = kColumns * kParts;
  static constexpr int kPhases = 2;
  struct Shared {
    float sums[kParts][kColumns];
  };

  RowSums args;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kColumns, part = thread / kColumns;
    const std::uint32_t column = block * kColumns + lane;
    if (column >= args.columns) return;
    float sum = 0;
    if (phase == 0) {
      DDPBENCH_UNROLL_BY(8)
      for (std::uint32_t row = part; row < args.rows; row += kParts) {
        sum += args.matrix[row * args.columns + column];
      }
      shared.sums[part][lane] = sum;
    } else if (part == 0) {
      for (std::uint32_t i = 0; i < kParts; ++i) sum += shared.sums[i][lane];
      write(column, sum);
    }
  }

  __host__ __device__ void write(std::uint32_t column, float sum) const {
    const bool first = column < args.split;
    float* const to = first ? args.sums : args.rest;
    if (to == nullptr) return;
    const std::uint32_t at = first ? column : column - args.split;
    to[at] = args.accumulate ? to[at] + sum : sum;
  }
};

template <typename T>
cudaError_t sum_chunks(const ColumnSums& args, float* sums, std::uint32_t chunks, bool accumulate,
                       cudaStream_t stream) {
  ChunkSums<T> body{};
  body.rows = args.rows;
  body.columns = args.columns;
  body.tiles = ceil_div(args.columns, kColumns);
  body.rows_per_chunk = ceil_div(args.rows, chunks);
  body.gradient = static_cast<const T*>(args.gradient);
  body.output = static_cast<const T*>(args.output);
  body.masked = static_cast<T*>(args.masked);
  body.sums = sums;
  body.accumulate = accumulate;
  return for_each_block(body.tiles * chunks, stream, body);
}

}  // namespace

std::size_t column_sums_workspace_bytes(std::uint32_t rows, std::uint32_t columns) {
  const std::uint32_t chunks = chunk_count(rows);
  return chunks == 1 ? 0 : sizeof(float) * chunks * columns;
}

cudaError_t column_sums(const ColumnSums& args, cudaStream_t stream) {
  const std::uint32_t chunks = chunk_count(args.rows);
  auto* const partial = static_cast<float*>(args.workspace);
  float* const sums = chunks == 1 || args.sums == nullptr ? args.sums : partial;
  const cudaError_t status = with_element_type(args.type, [&](auto element) {
    return sum_chunks<decltype(element)>(args, sums, chunks, args.accumulate && chunks == 1,
                                         stream);
  });
  if (status != cudaSuccess || chunks == 1 || args.sums == nullptr) return status;
  RowSums last{};
  last.rows = chunks;
  last.columns = last.split = args.columns;
  last.matrix = partial;
  last.sums = args.sums;
  last.accumulate = args.accumulate;
  return add_up_rows(last, stream);
}

cudaError_t add_up_rows(const RowSums& args, cudaStream_t stream) {
  return for_each_block(ceil_div(args.columns, kColumns), stream, AddUpRows{args});
}

}  // namespace ddpbench::ops::cuda
