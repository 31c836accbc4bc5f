// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of batch norm at every instruction set that this processor has.
#include "kernels/ops/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

using cpu::NormMaps;
using cpu::SimdLevel;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> all;
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512})
    if (level <= cpu::simd_level()) all.push_back(level);
  return all;
}

// Everything that one step of a layer computes.
struct Step {
  std::vector<double> totals, squares, sums, products;
  Values y, rectified, dx;
};

Step take_step(SimdLevel level, const NormMaps& maps) {
  const auto channels = static_cast<std::size_t>(maps.channels);
  const std::int64_t count = maps.batch * maps.channels * maps.pixels;
  const Values x = random_values(count, 1), addend = random_values(count, 2),
               dy = random_values(count, 3), scale = random_values(maps.channels, 4),
               shift = random_values(maps.channels, 5), mean = random_values(maps.channels, 6),
               more = random_values(count, 7);
  const cpu::Team team{level, 1};
  std::vector<double> partial(static_cast<std::size_t>(maps.partial_count()));
  Step step;
  for (auto* values : {&step.totals, &step.squares, &step.sums, &step.products})
    values->resize(channels);
  for (auto* values : {&step.y, &step.rectified, &step.dx})
    values->resize(static_cast<std::size_t>(count));
  cpu::norm_statistics(team, maps, x.data(), partial.data(), step.totals.data(),
                       step.squares.data());
  cpu::norm_forward(
      team, maps, x.data(),
      {.scale = scale.data(), .shift = shift.data(), .addend = addend.data(), .relu = true},
      step.y.data());
  const cpu::NormGradient gradient{
      .dy = dy.data(), .more = more.data(), .mean = mean.data(), .relu = true, .y = step.y.data()};
  cpu::norm_gradient_sums(team, maps, x.data(), gradient, step.rectified.data(), partial.data(),
                          step.sums.data(), step.products.data());
  cpu::norm_backward(team, maps, x.data(), gradient, scale.data(), shift.data(), mean.data(),
                     step.dx.data());
  return step;
}

Values rounded(const std::vector<double>& values) { return {values.begin(), values.end()}; }

class BatchNormKernel : public ::testing::TestWithParam<NormMaps> {};

// The instruction sets differ in what they round: fused multiply-add or not.
TEST_P(BatchNormKernel, GivesTheSameAtEveryInstructionSet) {
  const NormMaps& maps = GetParam();
  const Step want = take_step(SimdLevel::portable, maps);
  const double sums = sum_tolerance(maps.batch * maps.pixels);
  for (const SimdLevel level : levels()) {
    SCOPED_TRACE(cpu::to_string(level));
    const Step got = take_step(level, maps);
    EXPECT_TRUE(all_near(rounded(got.totals), rounded(want.totals), sums));
    EXPECT_TRUE(all_near(rounded(got.squares), rounded(want.squares), 4 * sums));
    EXPECT_TRUE(all_near(rounded(got.sums), rounded(want.sums), sums));
    EXPECT_TRUE(all_near(rounded(got.products), rounded(want.products), 4 * sums));
    EXPECT_TRUE(all_near(got.y, want.y, 4 * kEpsilon));
    EXPECT_TRUE(all_near(got.rectified, want.rectified, 0));
    EXPECT_TRUE(all_near(got.dx, want.dx, 8 * kEpsilon));
  }
}

// The bits of the maps that one step writes, `distance` elements behind an aligned address: results
// that lie on no multiple of 16 bytes are never stored past the caches.
std::vector<std::vector<std::uint16_t>> results_at(SimdLevel level, const NormMaps& maps,
                                                   std::size_t bytes, std::size_t distance) {
  using Bits = std::vector<std::uint16_t>;
  const std::size_t count = bytes / sizeof(std::uint16_t);
  // Numbers of either sign between 1 and 2, as bf16 and as the halves of fp32.
  const auto numbers = [count](std::size_t period) {
    Bits bits(count);
    for (std::size_t i = 0; i < count; ++i) {
      bits[i] = static_cast<std::uint16_t>(0x3f80U + i % period + (i % 3 << 15));
    }
    return bits;
  };
  const Bits x = numbers(97), addend = numbers(89), dy = numbers(83), more = numbers(79);
  const Values scale = random_values(maps.channels, 1), shift = random_values(maps.channels, 2);
  const auto channels = static_cast<std::size_t>(maps.channels);
  std::vector<double> partial(static_cast<std::size_t>(maps.partial_count())), sums(channels),
      products(channels);
  Bits y(count + distance), rectified(y), dx(y);
  const cpu::Team team{level, 1};
  cpu::norm_forward(
      team, maps, x.data(),
      {.scale = scale.data(), .shift = shift.data(), .addend = addend.data(), .relu = true},
      y.data() + distance);
  const cpu::NormGradient gradient{.dy = dy.data(),
                                   .more = more.data(),
                                   .mean = shift.data(),
                                   .relu = true,
                                   .y = y.data() + distance};
  cpu::norm_gradient_sums(team, maps, x.data(), gradient, rectified.data() + distance,
                          partial.data(), sums.data(), products.data());
  cpu::norm_backward(team, maps, x.data(), gradient, scale.data(), shift.data(), scale.data(),
                     dx.data() + distance);
  std::vector<Bits> all;
  for (const Bits* result : {&y, &rectified, &dx}) {
    all.emplace_back(result->begin() + static_cast<std::ptrdiff_t>(distance), result->end());
  }
  return all;
}

TEST(BatchNormKernelResults, AreTheSamePastTheCaches) {
  if (cpu::l2_bytes_per_core() == 0) GTEST_SKIP() << "the size of the L2 cache is not known";
  for (const NormMaps& blocks :
       {NormMaps{2, 32, 0, 16, DataType::fp32}, NormMaps{2, 24, 0, 8, DataType::fp32},
        NormMaps{2, 32, 0, 16, DataType::bf16}, NormMaps{2, 24, 0, 8, DataType::bf16}}) {
    NormMaps maps = blocks;
    const std::size_t pixel =
        static_cast<std::size_t>(maps.batch * maps.channels) * size_of(maps.type);
    maps.pixels = static_cast<std::int64_t>(4 * cpu::l2_bytes_per_core() / pixel) / 2 * 2 + 3;
    const std::size_t bytes = pixel * static_cast<std::size_t>(maps.pixels);
    for (const SimdLevel level : levels()) {
      SCOPED_TRACE(cpu::to_string(level));
      EXPECT_EQ(results_at(level, maps, bytes, 0), results_at(level, maps, bytes, 2));
    }
  }
}

// The first rows of a map tell nothing of the others.
TEST(BatchNormKernelStatistics, AreExactWhereTheFirstRowsAreFarFromTheOthers) {
  constexpr std::int64_t kPixels = 12544;
  for (const std::int64_t inner : {1, 8, 16, 40}) {
    SCOPED_TRACE(inner);
    const NormMaps maps{2, inner == 16 ? 48 : 40, kPixels, inner};
    const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t p) {
      const std::int64_t block = c / inner * inner;
      return static_cast<std::size_t>((n * maps.channels + block) * kPixels + p * inner + c -
                                      block);
    };
    Values x = random_values(maps.batch * maps.channels * kPixels, 1);
    const auto for_channel = [&](std::int64_t c, const auto& body) {
      for (std::int64_t n = 0; n < maps.batch; ++n)
        for (std::int64_t p = 0; p < kPixels; ++p) body(x[at(n, c, p)], p);
    };
    for_channel(2, [](float& v, std::int64_t) { v = 1000 + v / 1000; });
    for_channel(3, [](float& v, std::int64_t) { v = 0.1F; });
    for_channel(17, [](float& v, std::int64_t p) { v += p < 2000 ? 5.0F : 0.0F; });
    for_channel(20, [](float& v, std::int64_t p) { v = p < 128 ? 1000.7F : 0.3F; });
    x[at(1, 33, 5000)] = std::numeric_limits<float>::quiet_NaN();
    const auto channels = static_cast<std::size_t>(maps.channels);
    std::vector<double> partial(static_cast<std::size_t>(maps.partial_count())), sums(channels),
        squares(channels);
    cpu::norm_statistics({cpu::simd_level(), 1}, maps, x.data(), partial.data(), sums.data(),
                         squares.data());
    for (std::int64_t c = 0; c < maps.channels; ++c) {
      SCOPED_TRACE(c);
      const auto i = static_cast<std::size_t>(c);
      double sum = 0, deviations = 0;
      for_channel(c, [&](float v, std::int64_t) { sum += v; });
      const double mean = sum / maps.values();
      for_channel(c, [&](float v, std::int64_t) { deviations += (v - mean) * (v - mean); });
      if (c == 33) {
        EXPECT_TRUE(std::isnan(sums[i]) && std::isnan(squares[i]));
        continue;
      }
      const double spread = std::sqrt(deviations / maps.values());
      EXPECT_NEAR(sums[i] / maps.values(), mean, 2e-6 * spread + 1e-15);
      EXPECT_NEAR(squares[i], deviations, 4e-6 * deviations + 1e-15);
    }
    EXPECT_EQ(squares[3], 0);
  }
}

// Plain, two kinds of blocks with all channels real, and channels last with a rest.
INSTANTIATE_TEST_SUITE_P(Maps, BatchNormKernel,
                         ::testing::Values(NormMaps{2, 3, 35, 1}, NormMaps{2, 16, 9, 8},
                                           NormMaps{3, 32, 300, 16}, NormMaps{2, 40, 7, 40},
                                           NormMaps{2, 5, 6, 5}, NormMaps{1, 1, 2, 1}));

}  // namespace
}  // namespace ddpbench::ops::testing
