// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy. A prediction has a warp, or, in maps and up to 32 classes, a thread, which
// reads its logits three times, from caches where they fit: up to 16 bytes and two exponentials a
// logit. Two launches; one where one block has all predictions. A batch of hundreds is bound by the
// launches.
//
// Exponentials and logarithms are in single precision, the sum over samples in double. The order of
// every sum depends only on the shape.
//
// Lane l of a prediction's kLanes threads takes classes l, l + kLanes, ... and the lanes exchange
// their results through shared memory. Neighbouring threads read neighbouring logits: of a row, or
// of one class of a map.
//
// The target is subtracted before the gradient is scaled: where they nearly cancel, gradients of
// different scales are still equal but for the rounding of one product (docs/verification.md).
#include <cmath>

#include "kernels/ops/cuda/kernels/flat_kernels.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kFewClasses = 32;  // up to this many a thread takes a prediction

// As CrossEntropyDesc says.
struct LossShape {
  std::uint32_t batch, classes, positions;
  std::int32_t ignore_index;
  // `class_share` is what every class has of the target, `label_share` what the label has beyond.
  float label_share, class_share, weight;
  bool counts_hits;
};

LossShape loss_shape(const CrossEntropyDesc& desc) {
  const auto size = [](std::int64_t extent) { return static_cast<std::uint32_t>(extent); };
  return {size(desc.batch),
          size(desc.classes),
          size(desc.positions),
          desc.ignore_index,
          static_cast<float>(1 - desc.label_smoothing),
          static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes)),
          static_cast<float>(desc.weight),
          desc.counts_hits};
}

// The totals of some predictions; fewer than 2^31 have indices.
struct PartialTotals {
  double loss_sum;
  std::uint32_t correct, counted;
};

// The sum of every kSums-th of `count` parts.
template <std::uint32_t kSums>
__host__ __device__ PartialTotals sum_of(const PartialTotals* parts, std::uint32_t first,
                                         std::uint32_t count) {
  PartialTotals total{0, 0, 0};
  for (std::uint32_t i = first; i < count; i += kSums) {
    total.loss_sum += parts[i].loss_sum;
    total.correct += parts[i].correct;
    total.counted += parts[i].counted;
  }
  return total;
}

template <std::uint32_t kLanes>
struct Loss {
  static constexpr std::uint32_t kThreads = 256, kRows = kThreads / kLanes, kParts = 16;
  static constexpr int kPhases = 5;
  struct Largest {
    float value;
    std::uint32_t at;  // the number of classes: none found
  };
  struct Shared {
    Largest largest[kThreads];
    float sums[kThreads], gaps[kThreads];  // of exponentials; of what logits are below the largest
    PartialTotals rows[kRows], parts[kParts];
  };

  LossShape shape;
  LossArgs args;
  Divisor positions;
  PartialTotals* partial;  // of the blocks; null: there is one block

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kLanes, row = thread / kLanes;
    const std::uint32_t i = block * kRows + row;
    if (phase < 3 && i < shape.batch * shape.positions) {
      std::uint32_t n = i;
      const std::uint32_t position = positions.split(n);
      const std::uint32_t first = n * shape.classes * shape.positions + position;
      const bool counts =
          n < static_cast<std::uint32_t>(args.samples) && args.labels[i] != shape.ignore_index;
      if (phase == 0 && counts) s.largest[thread] = find_largest(first, lane);
      if (phase == 1 && counts) add_exponentials(s, first, thread);
      if (phase == 2) finish_row(s, first, i, thread, counts ? args.labels[i] : -1);
    } else if (phase == 2 && lane == 0) {
      s.rows[row] = {0, 0, 0};
    }
    if (phase == 3 && thread < kParts) s.parts[thread] = sum_of<kParts>(s.rows, thread, kRows);
    if (phase == 4 && thread == 0) {
      const PartialTotals total = sum_of<1>(s.parts, 0, kParts);
      if (partial != nullptr) {
        partial[block] = total;
      } else {
        add_output(*args.totals, total, shape);
      }
    }
  }

  __host__ __device__ Largest find_largest(std::uint32_t first, std::uint32_t lane) const {
    Largest found{-INFINITY, shape.classes};
    for (std::uint32_t j = lane; j < shape.classes; j += kLanes) {
      found = better(found, {args.logits[first + j * shape.positions], j});
    }
    return found;
  }
  // The larger one; of equal ones the first class. It has no branches, where lanes would diverge.
  __host__ __device__ Largest better(const Largest& a, const Largest& b) const {
    const bool larger = b.value > a.value, equal = b.value == a.value, before = b.at < a.at;
    const bool none_yet = a.at == shape.classes, is_one = b.at != shape.classes;
    return (is_one & (none_yet | larger | (equal & before))) ? b : a;
  }
  __host__ __device__ Largest largest_of_row(const Shared& s, std::uint32_t thread) const {
    const Largest* const lanes = s.largest + thread / kLanes * kLanes;
    Largest best = lanes[0];
    for (std::uint32_t i = 1; i < kLanes; ++i) best = better(best, lanes[i]);
    return best;
  }
  __host__ __device__ static float sum_of_row(const float* sums, std::uint32_t thread) {
    const float* const lanes = sums + thread / kLanes * kLanes;
    float sum = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i) sum += lanes[i];
    return sum;
  }

  __host__ __device__ void add_exponentials(Shared& s, std::uint32_t first,
                                            std::uint32_t thread) const {
    const float largest = largest_of_row(s, thread).value;
    float sum = 0, gaps = 0;
    for (std::uint32_t j = thread % kLanes; j < shape.classes; j += kLanes) {
      const float logit = args.logits[first + j * shape.positions];
      sum += expf(logit - largest);
      gaps += largest - logit;
    }
    s.sums[thread] = sum;
    s.gaps[thread] = gaps;
  }

  // Writes the gradient, which is 0 where the label is -1, for any logits.
  __host__ __device__ void finish_row(Shared& s, std::uint32_t first, std::uint32_t prediction,
                                      std::uint32_t thread, std::int32_t given) const {
    const auto label = static_cast<std::uint32_t>(given);
    const bool counts = given >= 0;
    const Largest best = counts ? largest_of_row(s, thread) : Largest{0, 0};
    const float sum = counts ? sum_of_row(s.sums, thread) : 1;
    if (args.grad_logits != nullptr) {
      const float weight = args.valid_weight != nullptr ? *args.valid_weight : 1;
      const float scale = args.loss_scale != nullptr ? args.loss_scale->scale : 1;
      const float factor = args.grad_scale * shape.weight * weight * scale, inverse = 1 / sum;
      for (std::uint32_t j = thread % kLanes; j < shape.classes; j += kLanes) {
        const std::uint32_t at = first + j * shape.positions;
        const float rest =
            counts ? expf(args.logits[at] - best.value) * inverse - shape.class_share : 0;
        args.grad_logits[at] = counts ? (j == label ? rest - shape.label_share : rest) * factor : 0;
      }
    }
    if (thread % kLanes != 0) return;
    s.rows[thread / kLanes] = {0, 0, 0};
    if (!counts) return;
    if (args.predicted != nullptr) args.predicted[prediction] = static_cast<std::int32_t>(best.at);
    const float at_label = args.logits[first + label * shape.positions];
    s.rows[thread / kLanes] = {loss_of(sum, best.value, at_label, sum_of_row(s.gaps, thread)),
                               best.at == label ? 1U : 0U, 1};
  }

  // -log of the target's shares. The sum of exponentials is 1 or more and has single precision. A
  // logarithm in double would add no information and cost hundreds of instructions.
  __host__ __device__ double loss_of(float sum, float largest, float at_label, float gaps) const {
    const double gap = static_cast<double>(largest) - at_label;
    const double below = shape.class_share > 0 ? static_cast<double>(shape.class_share) * gaps : 0;
    return logf(sum) + shape.label_share * gap + below;
  }
};

// One block adds up the other blocks' totals: each thread every kThreads-th, 32 threads every 32nd
// of those, and one these.
struct LossSum {
  static constexpr std::uint32_t kThreads = 1024, kParts = 32;
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
    if (phase == 0) s.threads[thread] = sum_of<kThreads>(partial, thread, count);
    if (phase == 1 && thread < kParts) {
      s.parts[thread] = sum_of<kParts>(s.threads, thread, kThreads);
    }
    if (phase == 2 && thread == 0) add_output(*totals, sum_of<1>(s.parts, 0, kParts), shape);
  }
};

bool has_thread_each(const LossShape& shape) {
  return shape.positions > 1 || shape.classes <= kFewClasses;
}

std::uint32_t block_count(const LossShape& shape) {
  return ceil_div(shape.batch * shape.positions,
                  has_thread_each(shape) ? Loss<1>::kRows : Loss<32>::kRows);
}

}  // namespace

std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) {
  return block_count(loss_shape(desc)) * sizeof(PartialTotals);
}

cudaError_t softmax_cross_entropy(const CrossEntropyDesc& desc, const LossArgs& args,
                                  cudaStream_t stream) {
  const LossShape shape = loss_shape(desc);
  const std::uint32_t blocks = block_count(shape);
  auto* const partial = blocks == 1 ? nullptr : static_cast<PartialTotals*>(args.workspace);
  const Divisor positions(shape.positions);
  const cudaError_t status =
      has_thread_each(shape)
          ? for_each_block(blocks, stream, Loss<1>{shape, args, positions, partial})
          : for_each_block(blocks, stream, Loss<32>{shape, args, positions, partial});
  if (status != cudaSuccess || blocks == 1) return status;
  return for_each_block(1, stream, LossSum{shape, partial, blocks, args.totals});
}

}  // namespace ddpbench::ops::cuda
