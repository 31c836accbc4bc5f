// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread takes a pixel: neighbouring threads read neighbouring logits of one class.
#include "kernels/ops/cuda/kernels/loss_parts.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

struct LossMaps {
  static constexpr std::uint32_t kThreads = 256, kParts = 16;
  static constexpr int kPhases = 3;
  struct Shared {
    PartialTotals pixels[kThreads], parts[kParts];
  };

  LossShape shape;
  Divisor positions;
  const float* logits;
  const std::int32_t* labels;
  std::uint32_t samples;
  float scale;
  const float* valid_weight;  // null: 1
  float* gradient;            // null: not wanted
  PartialTotals* partial;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t block,
                                      std::uint32_t thread) const {
    if (phase == 0) s.pixels[thread] = pixel(block * kThreads + thread);
    if (phase == 1 && thread < kParts) s.parts[thread] = sum<kThreads, kParts>(s.pixels, thread);
    if (phase == 2 && thread == 0) partial[block] = sum<kParts, 1>(s.parts, 0);
  }

  // Writes the gradient of prediction i.
  __host__ __device__ PartialTotals pixel(std::uint32_t i) const {
    if (i >= shape.batch * shape.positions) return {0, 0, 0};
    std::uint32_t n = i;
    const std::uint32_t position = positions.split(n);
    const std::uint32_t first = n * shape.classes * shape.positions + position;
    const bool counts = n < samples && labels[i] != shape.ignore_index;
    if (!counts) {
      write_zeros(first);
      return {0, 0, 0};
    }
    const float* const x = logits + first;
    std::uint32_t best = 0;
    float largest = x[0];
    for (std::uint32_t j = 1; j < shape.classes; ++j) {
      const float logit = x[j * shape.positions];
      best = logit > largest ? j : best;
      largest = logit > largest ? logit : largest;
    }
    float sum = 0, gaps = 0;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      const float logit = x[j * shape.positions];
      sum += expf(logit - largest);
      gaps += largest - logit;
    }
    const auto label = static_cast<std::uint32_t>(labels[i]);
    if (gradient != nullptr) write_gradient(first, label, largest, sum);
    return {loss_of(shape, sum, largest, x[label * shape.positions], gaps), best == label ? 1U : 0U,
            1};
  }

  __host__ __device__ void write_gradient(std::uint32_t first, std::uint32_t label, float largest,
                                          float sum) const {
    const float factor = gradient_factor(scale, valid_weight), inverse = 1 / sum;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      const std::uint32_t at = first + j * shape.positions;
      const float rest = expf(logits[at] - largest) * inverse - shape.class_share;
      gradient[at] = (j == label ? rest - shape.label_share : rest) * factor;
    }
  }

  __host__ __device__ void write_zeros(std::uint32_t first) const {
    if (gradient == nullptr) return;
    for (std::uint32_t j = 0; j < shape.classes; ++j) gradient[first + j * shape.positions] = 0;
  }
};

}  // namespace

std::uint32_t map_block_count(const LossShape& shape) {
  return ceil_div(shape.batch * shape.positions, LossMaps::kThreads);
}

cudaError_t map_losses(const LossShape& shape, const LossArgs& args, PartialTotals* partial,
                       cudaStream_t stream) {
  auto body = body_of<LossMaps>(shape, args, partial);
  body.positions = Divisor(shape.positions);
  return for_each_block(map_block_count(shape), stream, body);
}

}  // namespace ddpbench::ops::cuda
