// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The passes of batch norm at every instruction set that this processor has.
#include "kernels/ops/cpu/batch_norm.h"

#include <algorithm>
#include <numeric>

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
               shift = random_values(maps.channels, 5), mean = random_values(maps.channels, 6);
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
      .dy = dy.data(), .mean = mean.data(), .relu = true, .y = step.y.data()};
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

// Maps too large for the caches, whose results are stored past them where they lie on a multiple of
// 16 bytes.
TEST(BatchNormKernelResults, AreTheSamePastTheCaches) {
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    NormMaps maps{2, 32, 0, 16, type};
    const std::size_t pixel = static_cast<std::size_t>(maps.batch * maps.channels) * size_of(type);
    maps.pixels = static_cast<std::int64_t>(4 * cpu::l2_bytes_per_core() / pixel) + 1;
    const std::size_t bytes = pixel * static_cast<std::size_t>(maps.pixels);
    std::vector<std::uint16_t> x(bytes / 2), dy(bytes / 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<std::uint16_t>(0x3f80U + i % 97 + (i % 3 << 15));
      dy[i] = static_cast<std::uint16_t>(0x3f80U + i % 89 + (i % 5 << 15));
    }
    const Values scale = random_values(32, 1), shift = random_values(32, 2);
    const cpu::NormGradient gradient{.dy = dy.data(), .mean = shift.data()};
    std::vector<double> partial(static_cast<std::size_t>(maps.partial_count())), sums(32),
        products(32);
    const cpu::Team team{cpu::simd_level(), 1};
    using Result = std::vector<std::uint16_t>;
    const auto results = [&](std::size_t distance) {
      Result y(bytes / 2 + distance), rectified(y), dx(y);
      cpu::norm_forward(team, maps, x.data(), {.scale = scale.data(), .shift = shift.data()},
                        y.data() + distance);
      cpu::norm_gradient_sums(team, maps, x.data(), gradient, rectified.data() + distance,
                              partial.data(), sums.data(), products.data());
      cpu::norm_backward(team, maps, x.data(), gradient, scale.data(), shift.data(), scale.data(),
                         dx.data() + distance);
      std::vector<Result> all;
      for (Result* result : {&y, &rectified, &dx}) {
        all.emplace_back(result->begin() + static_cast<std::ptrdiff_t>(distance), result->end());
      }
      return all;
    };
    const std::vector<Result> aligned = results(0);
    EXPECT_EQ(aligned, results(2));
    EXPECT_EQ(aligned[1], dy);
  }
}

// The first rows of a map tell nothing of the others.
TEST(BatchNormKernelStatistics, AreExactWhereTheFirstRowsAreFarFromTheOthers) {
  const NormMaps maps{2, 16, 2000, 16};
  const Values noise = random_values(maps.batch * maps.channels * maps.pixels, 1);
  for (const float far : {0.0F, 1.0F, 1000.0F}) {
    SCOPED_TRACE(far);
    Values x = noise;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i / 16 % 2000 < 200) x[i] += far;
    }
    std::vector<double> partial(static_cast<std::size_t>(maps.partial_count())), sums(16),
        squares(16);
    cpu::norm_statistics({cpu::simd_level(), 1}, maps, x.data(), partial.data(), sums.data(),
                         squares.data());
    for (std::size_t c = 0; c < 16; ++c) {
      double sum = 0, deviations = 0;
      for (std::size_t i = c; i < x.size(); i += 16) sum += x[i];
      for (std::size_t i = c; i < x.size(); i += 16) {
        deviations += (x[i] - sum / maps.values()) * (x[i] - sum / maps.values());
      }
      EXPECT_NEAR(sums[c], sum, 1e-6 * maps.values() * (1 + far));
      EXPECT_NEAR(squares[c], deviations, 2e-6 * deviations);
    }
  }
}

// Plain, two kinds of blocks with all channels real, and channels last with a rest.
INSTANTIATE_TEST_SUITE_P(Maps, BatchNormKernel,
                         ::testing::Values(NormMaps{2, 3, 35, 1}, NormMaps{2, 16, 9, 8},
                                           NormMaps{3, 32, 300, 16}, NormMaps{2, 40, 7, 40},
                                           NormMaps{2, 5, 6, 5}, NormMaps{1, 1, 2, 1}));

}  // namespace
}  // namespace ddpbench::ops::testing
