// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions: rounding of the narrow types, NaN, wrapping, in-place use.
#include "parallel/comm/shm/collectives/reduce_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace ddpbench::comm {
namespace {

template <typename T>
std::vector<T> reduced(const std::vector<std::vector<T>>& inputs, const ReduceSpec& spec) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs)
    sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<T> result(inputs[0].size());
  reduce_sources(result.data(), sources, result.size(), spec);
  return result;
}

std::uint16_t to_bf16(float value) {  // exact values only
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

TEST(ReduceKernels, AddFromLeftToRight) {
  // 1e8 + 1 loses the 1 in fp32: the order shows.
  const std::vector<std::vector<float>> inputs = {{1e8F}, {1.0F}, {-1e8F}, {1.0F}};
  EXPECT_EQ(reduced(inputs, {DataType::fp32, ReduceOp::sum, 4})[0], 1.0F);
}

TEST(ReduceKernels, MayWriteOverTheFirstSource) {
  std::vector<float> a(10'007), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(3 * i);
  }
  const std::byte* const sources[] = {reinterpret_cast<std::byte*>(a.data()),
                                      reinterpret_cast<std::byte*>(b.data())};
  reduce_sources(a.data(), sources, a.size(), {DataType::fp32, ReduceOp::average, 2});
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], static_cast<float>(2 * i));
}

TEST(ReduceKernels, AverageDividesOnceWhereAReciprocalWouldRound) {
  // 5 / 3 differs from 5 * (1 / 3) in the last bit.
  const std::vector<std::vector<float>> inputs = {{1.0F}, {1.5F}, {2.5F}};
  EXPECT_EQ(reduced(inputs, {DataType::fp32, ReduceOp::average, 3})[0], 5.0F / 3.0F);
  ASSERT_NE(5.0F / 3.0F, 5.0F * (1.0F / 3.0F));
}

TEST(ReduceKernels, RoundBfloat16ToNearestEven) {
  // bf16 has 8 significant bits: 256 + 1 is half-way between 256 and 258, 258 + 1 between 258 and
  // 260.
  const std::vector<std::vector<std::uint16_t>> inputs = {{to_bf16(256), to_bf16(258), to_bf16(2)},
                                                          {to_bf16(1), to_bf16(1), to_bf16(3)}};
  const auto sum = reduced(inputs, {DataType::bf16, ReduceOp::sum, 2});
  EXPECT_EQ(sum[0], to_bf16(256));
  EXPECT_EQ(sum[1], to_bf16(260));
  EXPECT_EQ(sum[2], to_bf16(5));
}

TEST(ReduceKernels, AddHalfPrecisionInFp32) {
  const std::vector<std::vector<_Float16>> inputs = {
      std::vector<_Float16>(5000, static_cast<_Float16>(1.5F)),
      std::vector<_Float16>(5000, static_cast<_Float16>(2049.0F - 1.0F)),
      std::vector<_Float16>(5000, static_cast<_Float16>(0.25F))};
  // 2048 + 1.5 = 2049.5 rounds to 2050 (11 bits), and 2050.25 to 2050.
  for (const _Float16 value : reduced(inputs, {DataType::fp16, ReduceOp::sum, 3})) {
    ASSERT_EQ(static_cast<float>(value), 2050.0F);
  }
}

TEST(ReduceKernels, MaximumKeepsANaNFromEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto most =
      reduced<float>({{nan, 1, -1}, {1, nan, -2}}, {DataType::fp32, ReduceOp::maximum, 2});
  EXPECT_TRUE(std::isnan(most[0]));
  EXPECT_TRUE(std::isnan(most[1]));
  EXPECT_EQ(most[2], -1.0F);
  const auto narrow = reduced<std::uint16_t>({{0x7fc0, to_bf16(-3)}, {to_bf16(1), to_bf16(-2)}},
                                             {DataType::bf16, ReduceOp::maximum, 2});
  EXPECT_EQ(narrow[0], 0x7fc0);
  EXPECT_EQ(narrow[1], to_bf16(-2));
}

TEST(ReduceKernels, SumOfNaNStaysNaNInBfloat16) {
  // Rounding up a NaN's payload would make an infinity or zero of it.
  const auto sum =
      reduced<std::uint16_t>({{0x7fff, 0xffff}, {0, 0}}, {DataType::bf16, ReduceOp::sum, 2});
  for (const std::uint16_t bits : sum) EXPECT_GT(bits & 0x7fff, 0x7f80);
}

TEST(ReduceKernels, IntegersWrapAndAveragesTruncate) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const auto sum =
      reduced<std::int32_t>({{most, 7}, {1, -14}}, {DataType::int32, ReduceOp::sum, 2});
  EXPECT_EQ(sum[0], std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduced<std::int64_t>({{7}, {-14}}, {DataType::int64, ReduceOp::average, 2})[0], -3);
  EXPECT_EQ(reduced<std::uint8_t>({{250}, {10}}, {DataType::uint8, ReduceOp::sum, 2})[0], 4);
}

}  // namespace
}  // namespace ddpbench::comm
