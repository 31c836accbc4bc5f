// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cpu/simd.h"

#include <gtest/gtest.h>

namespace ddpbench::ops::cpu {
namespace {

// 1, 1.5, 1.75, ...: exact in fp32.
TEST(MultiplyAdds, AreAllMadeAtEveryLevelOfThisProcessor) {
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512}) {
    if (level > simd_level()) continue;
    const std::int64_t count = multiply_add_flops(level) / 2;
    const auto numbers = static_cast<float>(count);
    float value = 1;
    for (std::int64_t rounds = 0; rounds < 6; ++rounds) {
      EXPECT_EQ(run_multiply_adds(level, rounds, 0.5F, 1), numbers * value)
          << to_string(level) << ", " << rounds << " rounds";
      value = value * 0.5F + 1;
    }
  }
}

TEST(MultiplyAdds, OfBf16AreAllMade) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "the processor has no avx512_bf16";
  // Each of the numbers begins at 1, and gets two products of 1 a round.
  const auto numbers = static_cast<float>(bf16_multiply_add_flops()) / 4;
  for (std::int64_t rounds = 0; rounds < 6; ++rounds) {
    EXPECT_EQ(run_bf16_multiply_adds(rounds), numbers * static_cast<float>(1 + 2 * rounds));
  }
}

TEST(MultiplyAdds, AreTwoOperationsForEachLane) {
  EXPECT_EQ(multiply_add_flops(SimdLevel::avx512), 2 * multiply_add_flops(SimdLevel::avx2));
  EXPECT_EQ(multiply_add_flops(SimdLevel::avx2), 2 * multiply_add_flops(SimdLevel::portable));
  EXPECT_EQ(multiply_add_flops(SimdLevel::portable), 2 * 12 * 4);
}

}  // namespace
}  // namespace ddpbench::ops::cpu
