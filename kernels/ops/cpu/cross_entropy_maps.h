// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross-entropy of maps, a prediction for each pixel: logits [batch, classes, positions].
//
// The logits of one class are neighbours, so loops run over positions, in blocks whose gradients
// stay in the first cache for up to 100 classes. Operations and bytes are those of rows of logits,
// but exponentials are computed several at once. The gradient is scaled last, as in rows.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/ops/flat_ops.h"

namespace ddpbench::ops::cpu {

class MapLoss {
 public:
  // Both outlive it.
  MapLoss(const CrossEntropyDesc& desc, const LossArgs& args);

  // The number of blocks of all samples that are not padding.
  std::int64_t block_count() const { return args_.samples * blocks_of_sample(); }
  // Computes blocks [begin, end): their gradients, where wanted, and returns their sums.
  LossTotals blocks(std::int64_t begin, std::int64_t end) const;

 private:
  static constexpr std::int64_t kBlock = 64;
  // The predictions of a block.
  struct Block {
    const float* logits;  // of the first class
    float* gradient;      // likewise; null: not wanted
    const std::int32_t* labels;
    std::int64_t count;  // at most kBlock
  };
  struct Largest {
    float value[kBlock];
    std::int32_t at[kBlock];
  };

  std::int64_t blocks_of_sample() const { return ceil_div(desc_.positions, kBlock); }
  Block block_at(std::int64_t index) const;
  Largest find_largest(const Block& block) const;
  void add_exponentials(const Block& block, const Largest& largest, float* sums) const;
  void add_gaps(const Block& block, const Largest& largest, double* gaps) const;
  void write_gradient(const Block& block, const float* sums) const;
  LossTotals totals(const Block& block, const Largest& largest, const float* sums) const;

  const CrossEntropyDesc& desc_;
  const LossArgs& args_;
  float scale_, kept_, spread_;  // of the gradient: its factor; of the target: 1 - s, s / classes
};

}  // namespace ddpbench::ops::cpu
