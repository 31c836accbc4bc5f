// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Few classes: a thread a row, by way of shared memory, so that memory is read and written in whole
// lines. Up to 256 rows are one block, and need one launch.
//
// Many: lane l of a row's 32 takes classes l, l + 32, ... Lanes exchange what they found through
// shared memory; every lane then puts all 32 parts together in the same order.
#include "kernels/ops/cuda/loss_kernels.h"

#include <cmath>

#include "kernels/ops/cuda/divide.cuh"
#include "kernels/ops/cuda/launch.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kFewClasses = 32;  // up to which a thread takes a row
constexpr std::uint32_t kLanes = 32;
constexpr std::uint32_t kRows = 8;  // of a block

// Of one block's rows.
struct PartialTotals {
  double loss_sum;
  std::uint64_t correct;
};

__host__ __device__ void add(PartialTotals& sum, const PartialTotals& part) {
  sum.loss_sum += part.loss_sum;
  sum.correct += part.correct;
}

// Of every kSums-th of kCount.
template <std::uint32_t kCount, std::uint32_t kSums>
__host__ __device__ PartialTotals sum(const PartialTotals* parts, std::uint32_t first) {
  PartialTotals total{0, 0};
  for (std::uint32_t i = first; i < kCount; i += kSums) add(total, parts[i]);
  return total;
}

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

struct LossThreads {
  static constexpr std::uint32_t kThreads = 256;  // a row each
  static constexpr std::uint32_t kParts = 16;     // of the sum over them
  static constexpr int kPhases = 4;
  struct Shared {
    float tile[kThreads * (kFewClasses + 1)];
    PartialTotals rows[kThreads], parts[kParts];
  };

  LossShape shape;
  const float* logits;
  const std::int32_t* labels;
  std::uint32_t samples;
  float scale;
  float* gradient;         // null: not wanted
  PartialTotals* partial;  // null: there is one block, which adds to the totals
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

  // Odd, so that the rows' elements of one class lie in different banks.
  __host__ __device__ std::uint32_t stride() const { return shape.classes | 1U; }

  // The block's rows are one piece of memory, which neighbouring threads take in turn.
  __host__ __device__ std::uint32_t count(std::uint32_t block) const {
    const std::uint32_t rows = shape.batch - block * kThreads;
    return (rows < kThreads ? rows : kThreads) * shape.classes;
  }
  __host__ __device__ std::uint32_t place(std::uint32_t i) const {
    std::uint32_t row = i;
    const std::uint32_t j = classes.split(row);
    return row * stride() + j;
  }
  __host__ __device__ void read(Shared& s, std::uint32_t block, std::uint32_t thread) const {
    const float* const from = logits + block * kThreads * shape.classes;
    for (std::uint32_t i = thread; i < count(block); i += kThreads) s.tile[place(i)] = from[i];
  }
  __host__ __device__ void write(const Shared& s, std::uint32_t block, std::uint32_t thread) const {
    float* const to = gradient + block * kThreads * shape.classes;
    for (std::uint32_t i = thread; i < count(block); i += kThreads) to[i] = s.tile[place(i)];
  }

  // Leaves the gradient where the logits were. The first of the largest logits is the answer.
  __host__ __device__ PartialTotals row(Shared& s, std::uint32_t n, std::uint32_t thread) const {
    float* const x = s.tile + thread * stride();
    if (n >= samples) {
      for (std::uint32_t j = 0; j < shape.classes; ++j) x[j] = 0;
      return {0, 0};
    }
    std::uint32_t best = 0;
    for (std::uint32_t j = 1; j < shape.classes; ++j) best = x[j] > x[best] ? j : best;
    const float largest = x[best];
    const auto label = static_cast<std::uint32_t>(labels[n]);
    const double difference = static_cast<double>(largest) - x[label];
    float sum = 0;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      x[j] = expf(x[j] - largest);
      sum += x[j];
    }
    const float factor = scale / sum;
    for (std::uint32_t j = 0; j < shape.classes; ++j) {
      const float share = x[j] * factor;
      x[j] = j == label ? share - scale : share;
    }
    return {log(static_cast<double>(sum)) + difference, best == label ? 1U : 0U};
  }

  __host__ __device__ void finish(const PartialTotals& total, std::uint32_t block) const {
    if (partial != nullptr) {
      partial[block] = total;
      return;
    }
    totals->loss_sum += total.loss_sum;
    totals->correct += total.correct;
    totals->samples += samples;
  }
};

// One block adds up what the others found: a thread every kThreads-th, then 32 every 32nd of the
// threads', then one theirs. A block alone has only its own reads on their way, so each thread has
// several.
struct LossSum {
  static constexpr std::uint32_t kThreads = 1024, kParts = 32, kReads = 4;
  static constexpr int kPhases = 3;
  struct Shared {
    PartialTotals threads[kThreads], parts[kParts];
  };

  const PartialTotals* partial;
  std::uint32_t count, samples;
  LossTotals* totals;

  __host__ __device__ void operator()(int phase, Shared& s, std::uint32_t,
                                      std::uint32_t thread) const {
    if (phase == 0) s.threads[thread] = sum_of_thread(thread);
    if (phase == 1 && thread < kParts) s.parts[thread] = sum<kThreads, kParts>(s.threads, thread);
    if (phase == 2 && thread == 0) {
      const PartialTotals total = sum<kParts, 1>(s.parts, 0);
      totals->loss_sum += total.loss_sum;
      totals->correct += total.correct;
      totals->samples += samples;
    }
  }

  __host__ __device__ PartialTotals sum_of_thread(std::uint32_t thread) const {
    PartialTotals total{0, 0};
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

bool has_few_classes(const LossShape& shape) { return shape.classes <= kFewClasses; }

std::uint32_t block_count(const LossShape& shape) {
  const std::uint32_t rows = has_few_classes(shape) ? LossThreads::kThreads : kRows;
  return (shape.batch + rows - 1) / rows;
}

template <typename Body>
Body body_of(const LossShape& shape, const LossArgs& args, void* workspace) {
  Body body{};
  body.shape = shape;
  body.logits = args.logits;
  body.labels = args.labels;
  body.samples = static_cast<std::uint32_t>(args.samples);
  body.scale = args.grad_scale;
  body.gradient = args.grad_logits;
  body.partial = static_cast<PartialTotals*>(workspace);
  return body;
}

}  // namespace

std::size_t loss_workspace_bytes(const LossShape& shape) {
  return block_count(shape) * sizeof(PartialTotals);
}

cudaError_t softmax_cross_entropy(const LossShape& shape, const LossArgs& args, void* workspace,
                                  cudaStream_t stream) {
  const std::uint32_t blocks = block_count(shape);
  cudaError_t status = cudaSuccess;
  if (has_few_classes(shape)) {
    auto body = body_of<LossThreads>(shape, args, workspace);
    if (blocks == 1) body.partial = nullptr;
    body.classes = Divisor(shape.classes);
    body.totals = args.totals;
    status = for_each_block(blocks, stream, body);
    if (blocks == 1) return status;
  } else {
    status = for_each_block(blocks, stream, body_of<LossRows>(shape, args, workspace));
  }
  if (status != cudaSuccess) return status;
  return for_each_block(1, stream,
                        LossSum{static_cast<const PartialTotals*>(workspace), blocks,
                                static_cast<std::uint32_t>(args.samples), args.totals});
}

}  // namespace ddpbench::ops::cuda
