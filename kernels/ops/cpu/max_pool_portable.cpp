// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pool on any processor, one channel at a time, and the choice among all kernels.
#define DDPBENCH_POOL_TARGET

#include "kernels/ops/cpu/max_pool_loops.h"

namespace ddpbench::ops::cpu {
namespace {

template <typename MapElement, typename WinnerIndex>
struct ScalarVector {
  static constexpr std::int64_t kWidth = 1;
  using Element = MapElement;
  using Index = WinnerIndex;
  using Values = float;
  using Codes = Index;

  static float load(const Element* p) { return *p; }
  static void store(Element* p, float v) { *p = from_float<Element>(v); }
  static float values(float v) { return v; }
  static float plus(float a, float b) { return a + b; }
  static Index codes(Index code) { return code; }
  static Index load_codes(const Index* p) { return *p; }
  static void store_codes(Index* p, Index code) { *p = code; }
  static void challenge(float& best, Index& winner, float candidate, Index code) {
    const bool wins = candidate > best || candidate != candidate;
    best = wins ? candidate : best;
    winner = wins ? code : winner;
  }
  static void rectify(float& value, Index& winner) {
    winner = value <= 0 ? kNoGradient<Index> : winner;
    value = value < 0 ? 0 : value;
  }
  static float pick(float grad, Index winner, Index code) { return winner == code ? grad : 0; }
};

}  // namespace

PoolKernel pool_kernel_portable(bool halving, DataType type) {
  if (type == DataType::bf16) {
    return make_pool_kernel<ScalarVector<BFloat16, std::uint8_t>>(halving);
  }
  return make_pool_kernel<ScalarVector<float, std::uint8_t>>(halving);
}

PoolKernel pool_kernel_large_windows(DataType type) {
  if (type == DataType::bf16) return make_pool_kernel<ScalarVector<BFloat16, std::uint32_t>>(false);
  return make_pool_kernel<ScalarVector<float, std::uint32_t>>(false);
}

PoolKernel choose_pool_kernel(const PoolGeometry& geometry, SimdLevel level, DataType type) {
  // Code 255 means "no gradient", so a byte can number 255 elements.
  if (geometry.window.kernel_h * geometry.window.kernel_w > 255) {
    return pool_kernel_large_windows(type);
  }
  const bool halving = geometry.is_halving();
  if (level == SimdLevel::avx512 && geometry.inner % 16 == 0) {
    return pool_kernel_avx512(halving, type);
  }
  if (level != SimdLevel::portable && geometry.inner % 8 == 0 && type == DataType::fp32) {
    return pool_kernel_avx2(halving);
  }
  return pool_kernel_portable(halving, type);
}

}  // namespace ddpbench::ops::cpu
