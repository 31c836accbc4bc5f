// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The max-pool kernel of every instruction set against the portable one, bit by bit.
#include <cstring>
#include <limits>

#include "kernels/ops/cpu/max_pool.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

using cpu::PoolGeometry;
using cpu::PoolKernel;
using cpu::SimdLevel;

struct Geometry {
  const char* name;
  PoolGeometry pool;
};

std::vector<Geometry> geometries() {
  return {
      {"Halving", {6, 8, 3, 4, 16, {2, 2, 2, 2, 0, 0}, false}},
      {"HalvingOdd", {7, 5, 3, 2, 16, {2, 2, 2, 2, 0, 0}, false}},
      {"HalvingManyChannels", {4, 4, 2, 2, 48, {2, 2, 2, 2, 0, 0}, false}},
      {"Overlapping", {9, 7, 5, 4, 16, {3, 3, 2, 2, 1, 1}, false}},
      {"Oblong", {5, 9, 5, 4, 32, {1, 3, 1, 2, 0, 0}, false}},
  };
}

struct Pooled {
  Values output, grad_input;
  std::vector<std::uint8_t> winners;
};

Pooled run(const PoolKernel& kernel, const PoolGeometry& pool, const Values& x, const Values& dy) {
  const auto outputs = static_cast<std::size_t>(pool.output_elements());
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Pooled result{Values(outputs, kNaN), Values(x.size(), kNaN), std::vector<std::uint8_t>(outputs)};
  kernel.forward(pool, x.data(), result.output.data(), result.winners.data());
  kernel.backward(pool, dy.data(), result.winners.data(), result.grad_input.data());
  return result;
}

class PoolKernels : public ::testing::TestWithParam<Geometry> {};

TEST_P(PoolKernels, AgreeBitByBitOnEveryInstructionSet) {
  for (const bool relu : {false, true}) {
    PoolGeometry pool = GetParam().pool;
    pool.relu = relu;
    Values x = random_values(pool.input_elements(), 1);
    // Instruction sets could differ in ties, signed zeros, infinities and NaN.
    const float special[] = {0.0F,
                             -0.0F,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             0.5F,
                             0.5F};
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = special[i / 3 % std::size(special)];
    const Values dy = random_values(pool.output_elements(), 2);
    const bool halving = pool.is_halving();
    const Pooled want = run(cpu::pool_kernel(SimdLevel::portable, halving), pool, x, dy);
    const SimdLevel best = cpu::simd_level();
    if (best == SimdLevel::portable) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
    std::vector<PoolKernel> kernels = {cpu::pool_kernel(SimdLevel::avx2, halving),
                                       cpu::pool_kernel(SimdLevel::avx2, false)};
    if (best == SimdLevel::avx512) {
      kernels.push_back(cpu::pool_kernel(SimdLevel::avx512, halving));
      kernels.push_back(cpu::pool_kernel(SimdLevel::avx512, false));
    }
    for (const PoolKernel& kernel : kernels) {
      const Pooled got = run(kernel, pool, x, dy);
      EXPECT_TRUE(same_bits(got.output, want.output));
      EXPECT_EQ(got.winners, want.winners);
      // The general kernel adds to zeros, which turns -0 into 0. So this compares values.
      EXPECT_TRUE(all_near(got.grad_input, want.grad_input, 0));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, PoolKernels, ::testing::ValuesIn(geometries()),
                         [](const auto& test) { return test.param.name; });

TEST(PoolKernelChoice, NeedsWholeVectorsOfChannels) {
  PoolGeometry pool = geometries()[0].pool;
  const auto chosen = [&](std::int64_t inner, SimdLevel level) {
    pool.inner = inner;
    return cpu::choose_pool_kernel(pool, level).forward;
  };
  EXPECT_EQ(chosen(32, SimdLevel::avx512), cpu::pool_kernel(SimdLevel::avx512, true).forward);
  EXPECT_EQ(chosen(24, SimdLevel::avx512), cpu::pool_kernel(SimdLevel::avx2, true).forward);
  EXPECT_EQ(chosen(16, SimdLevel::avx2), cpu::pool_kernel(SimdLevel::avx2, true).forward);
  EXPECT_EQ(chosen(17, SimdLevel::avx512), cpu::pool_kernel(SimdLevel::portable, true).forward);
  EXPECT_EQ(chosen(16, SimdLevel::portable), cpu::pool_kernel(SimdLevel::portable, true).forward);
}

TEST(PoolKernelChoice, CountsLargeWindowsInWiderIntegers) {
  PoolGeometry pool{16, 16, 1, 1, 16, {16, 16, 1, 1, 0, 0}, false};
  EXPECT_EQ(cpu::choose_pool_kernel(pool, SimdLevel::avx512).winner_bytes, 4);
  pool.window.kernel_h = 15;
  EXPECT_EQ(cpu::choose_pool_kernel(pool, SimdLevel::avx512).winner_bytes, 1);
}

}  // namespace
}  // namespace ddpbench::ops::testing
