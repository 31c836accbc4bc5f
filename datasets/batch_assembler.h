// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns bytes of single samples into normalised batches. Immutable, so many threads may share one.
//
// Cost: reads 1 byte and writes 4 bytes a pixel; 64 x 784 take about 10 us, mostly cache misses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "datasets/dataset.h"

namespace ddpbench::data {

// (byte / 255 - mean) / std, in fp32.
struct Normalization {
  double mean = 0, std = 1;
};

// Host memory for one batch. The caller owns it, and it outlives the Loader.
struct BatchBuffer {
  float* images = nullptr;         // [batch, channels, height, width]
  std::int32_t* labels = nullptr;  // [batch]
};

class BatchAssembler {
 public:
  // `split` must outlive it. Throws ConfigError unless the standard deviation is positive.
  BatchAssembler(const Split& split, const Normalization& normalization);

  // Writes the samples with these indices one after the other. `images` and `labels` must have room
  // for them.
  void gather(std::span<const std::int64_t> indices, float* images, std::int32_t* labels) const;
  // The same for samples [first, first + count).
  void gather_range(std::int64_t first, std::int64_t count, const BatchBuffer& out) const;

 private:
  void convert(std::int64_t index, float* image) const;

  Split split_;
  float scale_, offset_;
};

// Assembles samples [first, first + count) of `split` in order, for evaluation.
void assemble_range(const Split& split, const Normalization& normalization, std::int64_t first,
                    std::int64_t count, const BatchBuffer& out);

}  // namespace ddpbench::data
