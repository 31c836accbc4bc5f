// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cpu/cross_entropy_maps.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddpbench::ops::cpu {
namespace {

// e^x for x <= 0, to two units in the last place; e^-87 below -87. Without branches and calls, so
// that compilers compute several at once. The reduction to [-ln 2 / 2, ln 2 / 2] is Cody and
// Waite's; it and the polynomial have the constants of Moshier's Cephes library (expf).
inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  // Adding it rounds to a whole number, which the sum then has in its lowest bits.
  constexpr float kRound = 0x1.8p23F;
  constexpr int kExponentBias = 127, kMantissaBits = 23;
  const float bounded = x < -87.0F ? -87.0F : x;
  const float sum = bounded * kLog2E + kRound;
  const float whole = sum - kRound;
  const float rest = bounded - whole * kLn2High - whole * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * rest + 1.3981999507e-3F;
  p = p * rest + 8.3334519073e-3F;
  p = p * rest + 4.1665795894e-2F;
  p = p * rest + 1.6666665459e-1F;
  p = p * rest + 5.0000001201e-1F;
  p = p * rest * rest + rest + 1.0F;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(sum) + kExponentBias) << kMantissaBits;
  return p * std::bit_cast<float>(power);
}

}  // namespace

MapLoss::MapLoss(const CrossEntropyDesc& desc, const LossArgs& args)
    : desc_(desc),
      args_(args),
      scale_(gradient_scale(desc, args)),
      kept_(static_cast<float>(1 - desc.label_smoothing)),
      spread_(static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes))) {}

LossTotals MapLoss::blocks(std::int64_t begin, std::int64_t end) const {
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

MapLoss::Block MapLoss::block_at(std::int64_t index) const {
  const std::int64_t sample = index / blocks_of_sample();
  const std::int64_t first = index % blocks_of_sample() * kBlock;
  const std::int64_t logits = sample * desc_.classes * desc_.positions + first;
  return {.logits = args_.logits + logits,
          .gradient = args_.grad_logits ? args_.grad_logits + logits : nullptr,
          .labels = args_.labels + sample * desc_.positions + first,
          .count = std::min(kBlock, desc_.positions - first)};
}

// The first of equal ones, as in a row.
MapLoss::Largest MapLoss::find_largest(const Block& block) const {
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
void MapLoss::add_exponentials(const Block& block, const Largest& largest, float* sums) const {
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
void MapLoss::add_gaps(const Block& block, const Largest& largest, double* gaps) const {
  for (std::int64_t j = 0; j < desc_.classes; ++j) {
    const float* const x = block.logits + j * desc_.positions;
    for (std::int64_t k = 0; k < block.count; ++k) {
      gaps[k] += static_cast<double>(largest.value[k]) - x[k];
    }
  }
}

LossTotals MapLoss::totals(const Block& block, const Largest& largest, const float* sums) const {
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
    ++totals.counted;
  }
  return totals;
}

void MapLoss::write_gradient(const Block& block, const float* sums) const {
  constexpr std::int32_t kNone = -1;
  float inverses[kBlock], spreads[kBlock];
  std::int32_t labels[kBlock];
  for (std::int64_t k = 0; k < block.count; ++k) {
    const bool counts = block.labels[k] != desc_.ignore_index;
    inverses[k] = counts ? 1 / sums[k] : 0.0F;
    spreads[k] = counts ? spread_ : 0.0F;
    labels[k] = counts ? block.labels[k] : kNone;
  }
  for (std::int64_t j = 0; j < desc_.classes; ++j) {
    float* const gradient = block.gradient + j * desc_.positions;
    for (std::int64_t k = 0; k < block.count; ++k) {
      const float rest = gradient[k] * inverses[k] - spreads[k];
      gradient[k] = (labels[k] == j ? rest - kept_ : rest) * scale_;
    }
  }
}

}  // namespace ddpbench::ops::cpu
