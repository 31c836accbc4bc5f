// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic that kernels share: division by multiplication, vectors of numbers.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kLargest = (1U << 31) - 1;

void expect_divides(std::uint32_t value, std::uint32_t divisor) {
  std::uint32_t quotient = value;
  const std::uint32_t remainder = Divisor(divisor).split(quotient);
  EXPECT_EQ(quotient, value / divisor) << value << " by " << divisor;
  EXPECT_EQ(remainder, value % divisor) << value << " by " << divisor;
}

TEST(Divisor, DividesAsTheProcessorDoes) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> divisors = {kLargest, kLargest - 1, 1U << 30, (1U << 30) + 1};
  for (std::uint32_t d = 1; d < 1000; ++d) divisors.push_back(d);
  for (int i = 0; i < 1000; ++i) divisors.push_back((random() & kLargest) | 1U);
  for (const std::uint32_t divisor : divisors) {
    for (const std::uint32_t value : {0U, 1U, divisor - 1, divisor, kLargest / divisor * divisor,
                                      kLargest / divisor * divisor - 1, kLargest - 1, kLargest}) {
      expect_divides(value & kLargest, divisor);
    }
    for (int i = 0; i < 20; ++i) expect_divides(random() & kLargest, divisor);
  }
}

TEST(Vector, KeepsOrderAndRoundsToTheType) {
  const float values[8] = {1.0F, -2.5F, 3.14159265F, 0.0F, -0.0F, 1e30F, 1e-30F, 65535.0F};
  alignas(kVectorBytes) std::array<Bf16, 8> halves{};
  store(halves.data(), values);
  float back[8];
  load(halves.data(), back);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(halves[i].bits, from_float<Bf16>(values[i]).bits) << i;
    EXPECT_EQ(back[i], to_float(halves[i])) << i;
    EXPECT_LE(std::abs(back[i] - values[i]), std::abs(values[i]) * 0x1p-8F) << i;
  }
  alignas(kVectorBytes) std::array<Fp16, 8> fp16{};
  store(fp16.data(), values);
  load(fp16.data(), back);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(back[i], static_cast<float>(static_cast<_Float16>(values[i]))) << i;
  }
  alignas(kVectorBytes) std::array<float, 4> floats{};
  const float four[4] = {values[0], values[1], values[2], values[5]};
  store(floats.data(), four);
  EXPECT_EQ(floats, (std::array<float, 4>{values[0], values[1], values[2], values[5]}));
}

TEST(Vector, KnowsWhatIsAligned) {
  alignas(kVectorBytes) const std::array<float, 8> memory{};
  const float* const null = nullptr;
  EXPECT_TRUE(are_vector_aligned(memory.data(), null, memory.data() + 4));
  EXPECT_FALSE(are_vector_aligned(memory.data(), memory.data() + 1));
}

}  // namespace
}  // namespace ddpbench::ops::cuda
