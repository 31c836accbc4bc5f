// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lane l of a row's 32 takes classes l, l + 32, ... Lanes exchange what they found through shared
// memory; every lane then puts all 32 parts together in the same order.
#include "kernels/ops/cuda/loss_kernels.h"

#include <cmath>

#include "kernels/ops/cuda/launch.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kLanes = 32;
constexpr std::uint32_t kRows = 8;  // of a block

// Of one block's rows.
struct PartialTotals {
  double loss_sum;
  std::uint64_t correct;
};

struct LossRows {
  static constexpr std::uint32_t kThreads = kLanes * kRows;
  static constexpr int kPhases = 4;
  struct Shared {
    float largest[kRows][kLanes];
    std::uint32_t at[kRows][kLanes];  // of the largest; the number of classes: none in this lane
    float sum[kRows][kLanes];
    double loss[kRows];
    bool correct[kRows];
  };

  LossShape shape;
  const float* logits;
  const std::int32_t* labels;
  std::uint32_t samples;
  float scale;
  float* gradient;  // null: not wanted
  PartialTotals* partial;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kLanes, row = thread / kLanes;
    const std::uint32_t n = block * kRows + row;
    if (phase == 0) find_largest(s, n, row, lane);
    if (phase == 1) add_exponentials(s, n, row, lane);
    if (phase == 2) finish_row(s, n, row, lane);
    if (phase == 3 && thread == 0) add_rows(s, block);
  }

  __host__ __device__ void find_largest(Shared& s, std::uint32_t n, std::uint32_t row,
                                        std::uint32_t lane) const {
    float largest = -INFINITY;
    std::uint32_t at = shape.classes;
    for (std::uint32_t j = lane; n < samples && j < shape.classes; j += kLanes) {
      const float x = logits[n * shape.classes + j];
      if (at != shape.classes && !(x > largest)) continue;
      largest = x;
      at = j;
    }
    s.largest[row][lane] = largest;
    s.at[row][lane] = at;
  }

  // The first of the row's largest logits.
  __host__ __device__ std::uint32_t best_of(const Shared& s, std::uint32_t row,
                                            float& largest) const {
    largest = s.largest[row][0];
    std::uint32_t at = s.at[row][0];
    for (std::uint32_t i = 1; i < kLanes; ++i) {
      const float other = s.largest[row][i];
      const std::uint32_t there = s.at[row][i];
      if (there == shape.classes) continue;
      if (other > largest || (other == largest && there < at)) {
        largest = other;
        at = there;
      }
    }
    return at;
  }

  __host__ __device__ void add_exponentials(Shared& s, std::uint32_t n, std::uint32_t row,
                                            std::uint32_t lane) const {
    float largest;
    best_of(s, row, largest);
    float sum = 0;
    for (std::uint32_t j = lane; n < samples && j < shape.classes; j += kLanes) {
      sum += expf(logits[n * shape.classes + j] - largest);
    }
    s.sum[row][lane] = sum;
  }

  __host__ __device__ void finish_row(Shared& s, std::uint32_t n, std::uint32_t row,
                                      std::uint32_t lane) const {
    float largest;
    const std::uint32_t best = best_of(s, row, largest);
    float sum = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i) sum += s.sum[row][i];
    const bool counts = n < samples;
    const std::uint32_t label = counts ? static_cast<std::uint32_t>(labels[n]) : shape.classes;
    if (gradient != nullptr && n < shape.batch) {
      write_gradient(n, lane, label, counts ? scale / sum : 0.0F, largest);
    }
    if (lane != 0) return;
    s.loss[row] = 0;
    if (counts) {
      const double difference = static_cast<double>(largest) - logits[n * shape.classes + label];
      s.loss[row] = log(static_cast<double>(sum)) + difference;
    }
    s.correct[row] = counts && best == label;
  }

  __host__ __device__ void write_gradient(std::uint32_t n, std::uint32_t lane, std::uint32_t label,
                                          float factor, float largest) const {
    for (std::uint32_t j = lane; j < shape.classes; j += kLanes) {
      const std::uint32_t at = n * shape.classes + j;
      // Rows past the samples that count: zero, whatever their logits are.
      const float share = label < shape.classes ? expf(logits[at] - largest) * factor : 0.0F;
      gradient[at] = j == label ? share - scale : share;
    }
  }

  __host__ __device__ void add_rows(const Shared& s, std::uint32_t block) const {
    PartialTotals total{0, 0};
    for (std::uint32_t row = 0; row < kRows; ++row) {
      total.loss_sum += s.loss[row];
      total.correct += s.correct[row] ? 1 : 0;
    }
    partial[block] = total;
  }
};

// One block adds up what the others found: 64 parts, then those.
struct LossSum {
  static constexpr std::uint32_t kThreads = 64;
  static constexpr int kPhases = 2;
  struct Shared {
    PartialTotals parts[kThreads];
  };

  const PartialTotals* partial;
  std::uint32_t count, samples;
  LossTotals* totals;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t,
                                      std::uint32_t thread) const {
    if (phase == 0) {
      PartialTotals sum{0, 0};
      for (std::uint32_t i = thread; i < count; i += kThreads) add(sum, partial[i]);
      s.parts[thread] = sum;
    } else if (thread == 0) {
      PartialTotals sum{0, 0};
      for (std::uint32_t i = 0; i < kThreads; ++i) add(sum, s.parts[i]);
      totals->loss_sum += sum.loss_sum;
      totals->correct += sum.correct;
      totals->samples += samples;
    }
  }

  __host__ __device__ static void add(PartialTotals& sum, const PartialTotals& part) {
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
  }
};

std::uint32_t block_count(const LossShape& shape) { return (shape.batch + kRows - 1) / kRows; }

}  // namespace

std::size_t loss_workspace_bytes(const LossShape& shape) {
  return block_count(shape) * sizeof(PartialTotals);
}

cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args, void* workspace,
                                  cudaStream_t stream) {
  LossRows rows{};
  rows.shape = shape;
  rows.logits = args.logits;
  rows.labels = args.labels;
  rows.samples = static_cast<std::uint32_t>(args.samples);
  rows.scale = args.grad_scale;
  rows.gradient = args.grad_logits;
  rows.partial = static_cast<PartialTotals*>(workspace);
  const cudaError_t status = for_each_block(block_count(shape), stream, rows);
  if (status != cudaSuccess) return status;
  return for_each_block(1, stream,
                        LossSum{rows.partial, block_count(shape), rows.samples, args.totals});
}

}  // namespace ddpbench::ops::cuda
