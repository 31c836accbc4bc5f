// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the loss share: the terms of a prediction's loss, and sums over predictions.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/loss_shape.h"

namespace ddpbench::ops::cuda {

// -log of the target's shares. The sum of exponentials is 1 or more and has single precision. A
// logarithm in double would add no information and cost hundreds of instructions. `gaps`: how far
// all logits are below the largest, summed.
__host__ __device__ inline double loss_of(const LossShape& shape, float sum, float largest,
                                          float at_label, float gaps) {
  const double gap = static_cast<double>(largest) - at_label;
  const double below = shape.class_share > 0 ? static_cast<double>(shape.class_share) * gaps : 0;
  return logf(sum) + shape.label_share * gap + below;
}

// The factor of the gradient.
__host__ __device__ inline float gradient_factor(float scale, const float* valid_weight) {
  return valid_weight != nullptr ? scale * *valid_weight : scale;
}

// The totals of some predictions; fewer than 2^31 have indices.
struct PartialTotals {
  double loss_sum;
  std::uint32_t correct, counted;
};

__host__ __device__ inline void add(PartialTotals& sum, const PartialTotals& part) {
  sum.loss_sum += part.loss_sum;
  sum.correct += part.correct;
  sum.counted += part.counted;
}

// The sum of every kSums-th of kCount parts.
template <std::uint32_t kCount, std::uint32_t kSums>
__host__ __device__ PartialTotals sum(const PartialTotals* parts, std::uint32_t first) {
  PartialTotals total{0, 0, 0};
  for (std::uint32_t i = first; i < kCount; i += kSums) add(total, parts[i]);
  return total;
}

// As add_output() in loss.h.
__host__ __device__ inline void add_to(LossTotals& totals, const PartialTotals& part,
                                       const LossShape& shape) {
  const double loss_sum = static_cast<double>(shape.weight) * part.loss_sum;
  totals.loss_sum += loss_sum;
  if (shape.counts_hits) {
    totals.correct += part.correct;
    totals.counted += part.counted;
    ++totals.steps;
  }
  const bool is_finite = loss_sum - loss_sum == 0;
  if (!is_finite && totals.diverged_step == 0) totals.diverged_step = totals.steps;
}

// One block adds up the other blocks' totals. Each thread sums every kThreads-th, 32 threads then
// sum every 32nd of those, and one sums these. A block alone has only its own reads in flight, so
// each thread has several.
struct LossSum {
  static constexpr std::uint32_t kThreads = 1024, kParts = 32, kReads = 4;
  static constexpr int kPhases = 3;
  struct Shared {
    PartialTotals threads[kThreads], parts[kParts];
  };

  LossShape shape;
  const PartialTotals* partial;
  std::uint32_t count;
  LossTotals* totals;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t,
                                      std::uint32_t thread) const {
    if (phase == 0) s.threads[thread] = sum_of_thread(thread);
    if (phase == 1 && thread < kParts) s.parts[thread] = sum<kThreads, kParts>(s.threads, thread);
    if (phase == 2 && thread == 0) add_to(*totals, sum<kParts, 1>(s.parts, 0), shape);
  }

  __host__ __device__ PartialTotals sum_of_thread(std::uint32_t thread) const {
    PartialTotals total{0, 0, 0};
    std::uint32_t i = thread;
    for (; i + (kReads - 1) * kThreads < count; i += kReads * kThreads) {
      PartialTotals parts[kReads];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kReads; ++k) parts[k] = partial[i + k * kThreads];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kReads; ++k) add(total, parts[k]);
    }
    for (; i < count; i += kThreads) add(total, partial[i]);
    return total;
  }
};

// A kernel of the loss with what all of them take.
template <typename Body>
Body body_of(const LossShape& shape, const LossArgs& args, PartialTotals* partial) {
  Body body{};
  body.shape = shape;
  body.logits = args.logits;
  body.labels = args.labels;
  body.samples = static_cast<std::uint32_t>(args.samples);
  body.scale = args.grad_scale * shape.weight;
  body.valid_weight = args.valid_weight;
  body.gradient = args.grad_logits;
  body.partial = partial;
  return body;
}

// For maps, with a prediction for each pixel (loss_maps.cu): the number of blocks, and the kernel,
// which leaves the totals of each block in `partial`.
std::uint32_t map_block_count(const LossShape& shape);
cudaError_t map_losses(const LossShape& shape, const LossArgs& args, PartialTotals* partial,
                       cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
