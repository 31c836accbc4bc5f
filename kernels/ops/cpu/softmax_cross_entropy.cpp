// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One exponential and about 5 operations a logit, 8 bytes a logit: 13 microseconds for 256 x 10.
//
// Exponentials are in single precision, the sum over samples in double. Each thread sums its own
// rows in order, then the threads' sums are added in order, so that equal runs give equal bits.
//
// The target is subtracted before the gradient is scaled: where they nearly cancel, gradients of
// different scales are still equal but for the rounding of one product (docs/verification.md).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

struct LossFactors {
  float scale, kept, spread;  // of the gradient: its factor; of the target: 1 - s, s / classes

  LossFactors(const CrossEntropyDesc& desc, const LossArgs& args)
      : scale(gradient_scale(desc, args)),
        kept(static_cast<float>(1 - desc.label_smoothing)),
        spread(static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes))) {}
};

// One prediction a sample: the logits of each are one row of memory.
class RowLoss {
 public:
  RowLoss(const CrossEntropyDesc& desc, const LossArgs& args)
      : args_(args),
        classes_(desc.classes),
        ignore_index_(desc.ignore_index),
        smoothing_(desc.label_smoothing),
        factors_(desc, args) {}

  LossTotals rows(std::int64_t begin, std::int64_t end) const {
    LossTotals totals;
    for (std::int64_t n = begin; n < end; ++n) {
      float* const grad = args_.grad_logits ? args_.grad_logits + n * classes_ : nullptr;
      if (args_.labels[n] == ignore_index_) {
        if (grad) std::fill_n(grad, classes_, 0.0F);
        continue;
      }
      const float* x = args_.logits + n * classes_;
      const std::int64_t best = std::max_element(x, x + classes_) - x;
      totals.loss_sum += row(x, x[best], args_.labels[n], grad);
      totals.correct += best == args_.labels[n] ? 1 : 0;
      if (args_.predicted) args_.predicted[n] = static_cast<std::int32_t>(best);
      ++totals.counted;
    }
    return totals;
  }

 private:
  // Returns a sample's loss. Writes its gradient unless `grad` is null.
  double row(const float* x, float largest, std::int32_t label, float* grad) const {
    float sum = 0;
    for (std::int64_t j = 0; j < classes_; ++j) {
      const float e = std::exp(x[j] - largest);
      if (grad) grad[j] = e;
      sum += e;
    }
    if (grad) {
      const float inverse = 1 / sum;
      for (std::int64_t j = 0; j < classes_; ++j) {
        const float rest = grad[j] * inverse - factors_.spread;
        grad[j] = (j == label ? rest - factors_.kept : rest) * factors_.scale;
      }
    }
    const double gap = static_cast<double>(largest) - x[label];
    const double log_sum = std::log(static_cast<double>(sum));
    return smoothing_ == 0 ? log_sum + gap : log_sum + smoothed(x, largest, gap);
  }

  double smoothed(const float* x, float largest, double gap) const {
    double gaps = 0;
    for (std::int64_t j = 0; j < classes_; ++j) gaps += static_cast<double>(largest) - x[j];
    return (1 - smoothing_) * gap + smoothing_ * gaps / static_cast<double>(classes_);
  }

  const LossArgs& args_;
  std::int64_t classes_;
  std::int32_t ignore_index_;
  double smoothing_;
  LossFactors factors_;
};

// Maps, a prediction for each pixel: logits [batch, classes, positions].
//
// The logits of one class are neighbours, so loops run over positions, in blocks whose gradients
// stay in the first cache for up to 100 classes. Operations and bytes are those of rows of logits,
// but exponentials are computed several at once.
class MapLoss {
 public:
  MapLoss(const CrossEntropyDesc& desc, const LossArgs& args)
      : desc_(desc), args_(args), factors_(desc, args) {}

  // The number of blocks of all samples that are not padding.
  std::int64_t block_count() const { return args_.samples * blocks_of_sample(); }
  // Computes blocks [begin, end): their gradients, where wanted, and returns their sums.
  LossTotals blocks(std::int64_t begin, std::int64_t end) const {
    LossTotals sums;
    for (std::int64_t i = begin; i < end; ++i) {
      const Block block = block_at(i);
      const Largest largest = find_largest(block);
      float exponentials[kBlock] = {};
      add_exponentials(block, largest, exponentials);
      sums += totals(block, largest, exponentials);
      if (block.gradient) write_gradient(block, exponentials);
    }
    return sums;
  }

 private:
  static constexpr std::int64_t kBlock = 64;
  // The predictions of a block.
  struct Block {
    const float* logits;  // of the first class
    float* gradient;      // likewise; null: not wanted
    const std::int32_t* labels;
    std::int32_t* predicted;  // null: not wanted
    std::int64_t count;       // at most kBlock
  };
  struct Largest {
    float value[kBlock];
    std::int32_t at[kBlock];
  };

  std::int64_t blocks_of_sample() const { return ceil_div(desc_.positions, kBlock); }

  Block block_at(std::int64_t index) const {
    const std::int64_t sample = index / blocks_of_sample();
    const std::int64_t first = index % blocks_of_sample() * kBlock;
    const std::int64_t logits = sample * desc_.classes * desc_.positions + first;
    return {
        .logits = args_.logits + logits,
        .gradient = args_.grad_logits ? args_.grad_logits + logits : nullptr,
        .labels = args_.labels + sample * desc_.positions + first,
        .predicted = args_.predicted ? args_.predicted + sample * desc_.positions + first : nullptr,
        .count = std::min(kBlock, desc_.positions - first)};
  }

  // The first of equal ones, as in a row.
  Largest find_largest(const Block& block) const {
    Largest largest{};
    std::copy_n(block.logits, block.count, largest.value);
    for (std::int64_t j = 1; j < desc_.classes; ++j) {
      const float* const x = block.logits + j * desc_.positions;
      for (std::int64_t k = 0; k < block.count; ++k) {
        const bool larger = x[k] > largest.value[k];
        largest.at[k] = larger ? static_cast<std::int32_t>(j) : largest.at[k];
        largest.value[k] = larger ? x[k] : largest.value[k];
      }
    }
    return largest;
  }

  // The exponentials are left where the gradient will be.
  void add_exponentials(const Block& block, const Largest& largest, float* sums) const {
    float values[kBlock];
    for (std::int64_t j = 0; j < desc_.classes; ++j) {
      const float* const x = block.logits + j * desc_.positions;
      for (std::int64_t k = 0; k < block.count; ++k) {
        values[k] = exponential(x[k] - largest.value[k]);
        sums[k] += values[k];
      }
      if (block.gradient) std::copy_n(values, block.count, block.gradient + j * desc_.positions);
    }
  }

  // How far all logits are below the largest.
  void add_gaps(const Block& block, const Largest& largest, double* gaps) const {
    for (std::int64_t j = 0; j < desc_.classes; ++j) {
      const float* const x = block.logits + j * desc_.positions;
      for (std::int64_t k = 0; k < block.count; ++k) {
        gaps[k] += static_cast<double>(largest.value[k]) - x[k];
      }
    }
  }

  LossTotals totals(const Block& block, const Largest& largest, const float* sums) const {
    double gaps[kBlock] = {};
    const double smoothing = desc_.label_smoothing;
    if (smoothing > 0) add_gaps(block, largest, gaps);
    LossTotals totals;
    for (std::int64_t k = 0; k < block.count; ++k) {
      const std::int32_t label = block.labels[k];
      if (label == desc_.ignore_index) continue;
      const float at_label = block.logits[label * desc_.positions + k];
      const double gap = static_cast<double>(largest.value[k]) - at_label;
      totals.loss_sum += std::log(static_cast<double>(sums[k])) + (1 - smoothing) * gap +
                         smoothing * gaps[k] / static_cast<double>(desc_.classes);
      totals.correct += largest.at[k] == label ? 1 : 0;
      if (block.predicted) block.predicted[k] = largest.at[k];
      ++totals.counted;
    }
    return totals;
  }

  void write_gradient(const Block& block, const float* sums) const {
    constexpr std::int32_t kNone = -1;
    float inverses[kBlock], spreads[kBlock];
    std::int32_t labels[kBlock];
    for (std::int64_t k = 0; k < block.count; ++k) {
      const bool counts = block.labels[k] != desc_.ignore_index;
      inverses[k] = counts ? 1 / sums[k] : 0.0F;
      spreads[k] = counts ? factors_.spread : 0.0F;
      labels[k] = counts ? block.labels[k] : kNone;
    }
    for (std::int64_t j = 0; j < desc_.classes; ++j) {
      float* const gradient = block.gradient + j * desc_.positions;
      for (std::int64_t k = 0; k < block.count; ++k) {
        const float rest = gradient[k] * inverses[k] - spreads[k];
        gradient[k] = (labels[k] == j ? rest - factors_.kept : rest) * factors_.scale;
      }
    }
  }

  const CrossEntropyDesc& desc_;
  const LossArgs& args_;
  LossFactors factors_;
};

// Adds the sums that `part` returns for each thread's share of `count` pieces.
template <typename Part>
void add_shares(int threads, std::int64_t count, const CrossEntropyDesc& desc, LossTotals& totals,
                const Part& part) {
  std::vector<LossTotals> partial(static_cast<std::size_t>(threads));
  parallel_shares(threads, count, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(thread)] = part(begin, end);
  });
  LossTotals sums;
  for (const LossTotals& own : partial) sums += own;
  add_output(totals, sums, desc);
}

}  // namespace

void softmax_cross_entropy(int threads, const CrossEntropyDesc& desc, const LossArgs& args) {
  check_loss(desc);
  const std::int64_t sample = desc.classes * desc.positions;
  if (args.samples * sample < kMinParallelElements) threads = 1;
  if (desc.positions == 1) {
    const RowLoss loss(desc, args);
    add_shares(threads, args.samples, desc, *args.totals,
               [&](std::int64_t begin, std::int64_t end) { return loss.rows(begin, end); });
  } else {
    const MapLoss loss(desc, args);
    add_shares(threads, loss.block_count(), desc, *args.totals,
               [&](std::int64_t begin, std::int64_t end) { return loss.blocks(begin, end); });
  }
  if (args.grad_logits) {
    std::fill(args.grad_logits + args.samples * sample, args.grad_logits + desc.batch * sample,
              0.0F);
  }
}

}  // namespace ddpbench::ops::cpu
