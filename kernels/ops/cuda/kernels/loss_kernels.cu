// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Few classes: a thread takes a row, through shared memory, so that memory is read and written in
// whole lines. Up to 256 rows are one block and need one launch.
//
// Many classes: lane l of a row's 32 takes classes l, l + 32, ... Lanes exchange their results
// through shared memory: 4 of them combine 8 results each, then every lane combines those 4, in the
// same order. Up to 1024 classes the row itself stays there, too. Its logits are then read once,
// and their exponentials computed once.
//
// The target is subtracted before the gradient is scaled: where they nearly cancel, gradients of
// different scales are still equal but for the rounding of one product (docs/verification.md).
#include "kernels/ops/cuda/kernels/loss_kernels.h"

#include <cmath>

#include "kernels/ops/cuda/kernels/loss_parts.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kFewClasses = 32;  // up to this many a thread takes a row
constexpr std::uint32_t kLanes = 32;
constexpr std::uint32_t kRows = 8;  // of a block

// Reads values first, first + kStride, ... of those below `end`.
template <std::uint32_t kStride, std::uint32_t kCount>
__host__ __device__ void read_strided(const float* from, std::uint32_t first, std::uint32_t end,
                                      float (&values)[kCount]) {
  const float* const mine = from + first;
  DDPBENCH_UNROLL
  for (std::uint32_t k = 0; k < kCount; ++k) {
    values[k] = first + k * kStride < end ? mine[k * kStride] : 0.0F;
  }
}

struct LossRows {
  static constexpr std::uint32_t kThreads = kLanes * kRows;
  static constexpr std::uint32_t kReads = 8;    // logits of a lane in flight together
  static constexpr std::uint32_t kParts = 4;    // of a row: combined results of its lanes
  static constexpr std::uint32_t kKept = 1024;  // classes whose values stay in shared memory
  static constexpr int kPhases = 6;
  struct Largest {
    float value;
    std::uint32_t at;  // the number of classes: none found
  };
  struct Shared {
    float kept[kRows][kKept];  // logits, then their exponentials
    Largest largest[kRows][kLanes], largest_parts[kRows][kParts];
    float sums[kRows][kLanes], sum_parts[kRows][kParts];
    float gaps[kRows][kLanes], gap_parts[kRows][kParts];  // with label smoothing
    PartialTotals rows[kRows];
  };

  LossShape shape;
  const float* logits;
  const std::int32_t* labels;
  std::uint32_t samples;
  float scale;
  const float* valid_weight;  // null: 1
  float* gradient;            // null: not wanted
  PartialTotals* partial;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kLanes, row = thread / kLanes;
    const std::uint32_t n = block * kRows + row;
    if (phase == 0) s.largest[row][lane] = find_largest(s, n, row, lane);
    if (phase == 1 && lane < kParts) {
      s.largest_parts[row][lane] = best_of<kLanes, kParts>(s.largest[row], lane);
    }
    if (phase == 2) s.sums[row][lane] = add_exponentials(s, n, row, lane);
    if (phase == 3 && lane < kParts) {
      s.sum_parts[row][lane] = sum_of<kLanes, kParts>(s.sums[row], lane);
      s.gap_parts[row][lane] = sum_of<kLanes, kParts>(s.gaps[row], lane);
    }
    if (phase == 4) finish_row(s, n, row, lane);
    if (phase == 5 && thread == 0) add_rows(s, block);
  }

  // Finds the largest of the lane's classes; keeps their logits.
  __host__ __device__ Largest find_largest(Shared& s, std::uint32_t n, std::uint32_t row,
                                           std::uint32_t lane) const {
    Largest found{-INFINITY, shape.classes};
    const float* const from = logits + n * shape.classes;
    const std::uint32_t end = n < samples ? shape.classes : 0;
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t first = lane; first < end; first += kReads * kLanes) {
      float values[kReads];
      read_strided<kLanes>(from, first, end, values);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kReads; ++k) {
        const std::uint32_t j = first + k * kLanes;
        if (j >= end) continue;
        if (j < kKept) s.kept[row][j] = values[k];
        found = better(found, {values[k], j});
      }
    }
    return found;
  }

  // The larger one; of equal ones the first class. It has no branches, where lanes would diverge.
  __host__ __device__ Largest better(const Largest& a, const Largest& b) const {
    const bool larger = b.value > a.value, equal = b.value == a.value, before = b.at < a.at;
    const bool none_yet = a.at == shape.classes, is_one = b.at != shape.classes;
    return (is_one & (none_yet | larger | (equal & before))) ? b : a;
  }
  // The largest of every kStep-th of kCount.
  template <std::uint32_t kCount, std::uint32_t kStep>
  __host__ __device__ Largest best_of(const Largest* found, std::uint32_t first) const {
    Largest best = found[first];
    for (std::uint32_t i = first + kStep; i < kCount; i += kStep) best = better(best, found[i]);
    return best;
  }
  template <std::uint32_t kCount, std::uint32_t kStep>
  __host__ __device__ static float sum_of(const float* parts, std::uint32_t first) {
    float sum = 0;
    for (std::uint32_t i = first; i < kCount; i += kStep) sum += parts[i];
    return sum;
  }

  // Adds the exponentials of the lane's classes; keeps them. Adds the gaps, too.
  __host__ __device__ float add_exponentials(Shared& s, std::uint32_t n, std::uint32_t row,
                                             std::uint32_t lane) const {
    const float largest = best_of<kParts, 1>(s.largest_parts[row], 0).value;
    float sum = 0, gaps = 0;
    for (std::uint32_t j = lane; n < samples && j < shape.classes; j += kLanes) {
      const float logit = j < kKept ? s.kept[row][j] : logits[n * shape.classes + j];
      const float exponential = expf(logit - largest);
      if (j < kKept) s.kept[row][j] = exponential;
      sum += exponential;
      gaps += largest - logit;
    }
    s.gaps[row][lane] = gaps;
    return sum;
  }

  __host__ __device__ void finish_row(Shared& s, std::uint32_t n, std::uint32_t row,
                                      std::uint32_t lane) const {
    const Largest best = best_of<kParts, 1>(s.largest_parts[row], 0);
    const float sum = sum_of<kParts, 1>(s.sum_parts[row], 0);
    const std::int32_t given = n < samples ? labels[n] : shape.ignore_index;
    const bool counts = n < samples && given != shape.ignore_index;
    const std::uint32_t label = counts ? static_cast<std::uint32_t>(given) : shape.classes;
    if (gradient != nullptr && n < shape.batch) {
      const float factor = gradient_factor(scale, valid_weight);
      write_gradient(s.kept[row], n, lane, label, factor, 1 / sum, best.value);
    }
    if (lane != 0) return;
    s.rows[row] = {0, 0, 0};
    if (!counts) return;
    const float gaps = sum_of<kParts, 1>(s.gap_parts[row], 0);
    s.rows[row] = {loss_of(shape, sum, best.value, logits[n * shape.classes + label], gaps),
                   best.at == label ? 1U : 0U, 1};
  }

  // `label`: the number of classes in rows that do not count. `factor`: of the whole gradient,
  // `inverse`: of the exponentials, which makes them shares.
  __host__ __device__ void write_gradient(const float* exponentials, std::uint32_t n,
                                          std::uint32_t lane, std::uint32_t label, float factor,
                                          float inverse, float largest) const {
    for (std::uint32_t j = lane; j < shape.classes; j += kLanes) {
      const std::uint32_t at = n * shape.classes + j;
      float value = 0;  // stays 0 in rows that do not count, for any logits
      if (label < shape.classes) {
        const float exponential = j < kKept ? exponentials[j] : expf(logits[at] - largest);
        const float rest = exponential * inverse - shape.class_share;
        value = (j == label ? rest - shape.label_share : rest) * factor;
      }
      gradient[at] = value;
    }
  }

  __host__ __device__ void add_rows(const Shared& s, std::uint32_t block) const {
    PartialTotals total{0, 0, 0};
    for (std::uint32_t row = 0; row < kRows; ++row) add(total, s.rows[row]);
    partial[block] = total;
  }
};

struct LossThreads {
  static constexpr std::uint32_t kThreads = 256;  // one row each
  static constexpr std::uint32_t kParts = 16;     // of the sum over them
  static constexpr std::uint32_t kReads = 12;     // logits of a thread in flight together
  static constexpr int kPhases = 4;
  struct Shared {
    float tile[kThreads * (kFewClasses + 1)];
    std::uint32_t labels[kThreads];
    PartialTotals rows[kThreads], parts[kParts];
  };

  LossShape shape;
  const float* logits;
  const std::int32_t* labels;
  std::uint32_t samples;
  float scale;
  const float* valid_weight;  // null: 1
  float* gradient;            // null: not wanted
  PartialTotals* partial;     // null: there is one block, which adds to the totals
  LossTotals* totals;
  Divisor classes;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t block,
                                      std::uint32_t thread) const {
    if (phase == 0) read(s, block, thread);
    if (phase == 1) s.rows[thread] = row(s, block * kThreads + thread, thread);
    if (phase == 2) {
      if (gradient != nullptr) write(s, block, thread);
      if (thread < kParts) s.parts[thread] = sum<kThreads, kParts>(s.rows, thread);
    }
    if (phase == 3 && thread == 0) finish(sum<kParts, 1>(s.parts, 0), block);
  }

  // It is odd, so that the rows' elements of one class lie in different banks.
  __host__ __device__ std::uint32_t stride() const { return shape.classes | 1U; }

  // The block's rows are one piece of memory. Neighbouring threads take neighbouring elements.
  __host__ __device__ std::uint32_t count(std::uint32_t block) const {
    const std::uint32_t rows = shape.batch - block * kThreads;
    return (rows < kThreads ? rows : kThreads) * shape.classes;
  }
  __host__ __device__ std::uint32_t place(std::uint32_t i) const {
    std::uint32_t row = i;
    const std::uint32_t j = classes.split(row);
    return row * stride() + j;
  }
  // All reads of the block start before its threads meet. The labels' reads start beside those of
  // the first logits.
  __host__ __device__ void read(Shared& s, std::uint32_t block, std::uint32_t thread) const {
    const float* const from = logits + block * kThreads * shape.classes;
    const std::uint32_t end = count(block), n = block * kThreads + thread;
    float values[kReads];
    read_strided<kThreads>(from, thread, end, values);
    const std::int32_t label = n < samples ? labels[n] : 0;
    keep(s, thread, end, values);
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = thread + kReads * kThreads; i < end; i += kReads * kThreads) {
      read_strided<kThreads>(from, i, end, values);
      keep(s, i, end, values);
    }
    s.labels[thread] = static_cast<std::uint32_t>(label);
  }
  __host__ __device__ void keep(Shared& s, std::uint32_t first, std::uint32_t end,
                                const float (&values)[kReads]) const {
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kReads; ++k) {
      const std::uint32_t i = first + k * kThreads;
      if (i < end) s.tile[place(i)] = values[k];
    }
  }
  __host__ __device__ void write(const Shared& s, std::uint32_t block, std::uint32_t thread) const {
    float* const to = gradient + block * kThreads * shape.classes;
    for (std::uint32_t i = thread; i < count(block); i += kThreads) to[i] = s.tile[place(i)];
  }

  // Replaces the logits by their gradient. The first of the largest logits is the prediction.
  __host__ __device__ PartialTotals row(Shared& s, std::uint32_t n, std::uint32_t thread) const {
    float* const x = s.tile + thread * stride();
    const std::uint32_t label = s.labels[thread];
    if (n >= samples || static_cast<std::int32_t>(label) == shape.ignore_index) {
      for (std::uint32_t j = 0; j < shape.classes; ++j) x[j] = 0;
      return {0, 0, 0};
    }
    std::uint32_t best = 0;
    for (std::uint32_t j = 1; j < shape.classes; ++j) best = x[j] > x[best] ? j : best;
    const float largest = x[best];
    const float at_label = x[label];
    float sum = 0, gaps = 0;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      gaps += largest - x[j];
      x[j] = expf(x[j] - largest);
      sum += x[j];
    }
    const float factor = gradient_factor(scale, valid_weight), inverse = 1 / sum;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      const float rest = x[j] * inverse - shape.class_share;
      x[j] = (j == label ? rest - shape.label_share : rest) * factor;
    }
    return {loss_of(shape, sum, largest, at_label, gaps), best == label ? 1U : 0U, 1};
  }

  __host__ __device__ void finish(const PartialTotals& total, std::uint32_t block) const {
    if (partial != nullptr) {
      partial[block] = total;
      return;
    }
    add_to(*totals, total, shape);
  }
};

bool has_few_classes(const LossShape& shape) { return shape.classes <= kFewClasses; }

std::uint32_t block_count(const LossShape& shape) {
  if (shape.positions > 1) return map_block_count(shape);
  const std::uint32_t rows = has_few_classes(shape) ? LossThreads::kThreads : kRows;
  return ceil_div(shape.batch, rows);
}

}  // namespace

std::size_t loss_workspace_bytes(const LossShape& shape) {
  return block_count(shape) * sizeof(PartialTotals);
}

cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args,
                                  cudaStream_t stream) {
  const std::uint32_t blocks = block_count(shape);
  auto* const partial = static_cast<PartialTotals*>(args.workspace);
  cudaError_t status = cudaSuccess;
  if (shape.positions > 1) {
    status = map_losses(shape, args, partial, stream);
  } else if (has_few_classes(shape)) {
    auto body = body_of<LossThreads>(shape, args, partial);
    if (blocks == 1) body.partial = nullptr;
    body.classes = Divisor(shape.classes);
    body.totals = args.totals;
    status = for_each_block(blocks, stream, body);
    if (blocks == 1) return status;
  } else {
    status = for_each_block(blocks, stream, body_of<LossRows>(shape, args, partial));
  }
  if (status != cudaSuccess) return status;
  return for_each_block(1, stream, LossSum{shape, partial, blocks, args.totals});
}

}  // namespace ddpbench::ops::cuda
