// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Column sums with and without a ReLU's mask, over shapes that decide how the kernels read. They
// run on the stand-in, whose default stream runs at once on host memory.
#include "kernels/ops/cuda/kernels/column_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

struct Case {
  std::uint32_t rows, columns;
  bool relu, accumulate;
};

struct Result {
  std::vector<float> sums, masked;
};

template <typename T>
std::vector<T> numbers(const std::vector<float>& values) {
  std::vector<T> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = from_float<T>(values[i]);
  return result;
}

// Whole numbers that bf16 holds, whose sums are exact in any order.
std::vector<float> values(const Case& c, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> result(std::size_t{c.rows} * c.columns);
  for (float& v : result) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return result;
}

template <typename T>
Result run(const Case& c, const std::vector<float>& gradient, const std::vector<float>& output) {
  const std::vector<T> dy = numbers<T>(gradient), y = numbers<T>(output);
  std::vector<T> masked(dy.size());
  std::vector<float> sums(c.columns, 3);
  std::vector<float> workspace(column_sums_workspace_bytes(c.rows, c.columns) / sizeof(float));
  ColumnSums args{};
  args.type = sizeof(T) == 2 ? DataType::bf16 : DataType::fp32;
  args.rows = c.rows;
  args.columns = c.columns;
  args.gradient = dy.data();
  if (c.relu) args.output = y.data();
  if (c.relu) args.masked = masked.data();
  args.sums = sums.data();
  args.accumulate = c.accumulate;
  args.workspace = workspace.data();
  EXPECT_EQ(column_sums(args, nullptr), cudaSuccess);
  Result result{.sums = sums, .masked = {}};
  for (const T value : masked) result.masked.push_back(to_float(value));
  return result;
}

Result expected(const Case& c, const std::vector<float>& gradient,
                const std::vector<float>& output) {
  Result result{.sums = std::vector<float>(c.columns, c.accumulate ? 3 : 0),
                .masked = std::vector<float>(gradient.size())};
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float value = !c.relu || output[i] > 0 ? gradient[i] : 0;
    result.sums[i % c.columns] += value;
    if (c.relu) result.masked[i] = value;
  }
  return result;
}

template <typename T>
void check_case(const Case& c) {
  SCOPED_TRACE(::testing::Message()
               << c.rows << " x " << c.columns << " of " << sizeof(T) << " bytes, relu " << c.relu);
  const std::vector<float> gradient = values(c, 1), output = values(c, 2);
  const Result got = run<T>(c, gradient, output), want = expected(c, gradient, output);
  EXPECT_EQ(got.sums, want.sums);
  EXPECT_EQ(got.masked, want.masked);
}

TEST(ColumnSums, AreThoseOfEveryShape) {
  for (const std::uint32_t rows : {1U, 7U, 512U, 513U, 1000U, 2085U}) {
    for (const std::uint32_t columns : {1U, 3U, 8U, 10U, 32U, 64U, 72U, 264U, 300U}) {
      for (const bool relu : {false, true}) {
        check_case<float>({rows, columns, relu, !relu});
        check_case<Bf16>({rows, columns, relu, relu});
      }
    }
  }
}

// More parts than the second launch's threads take at once, and the largest number of parts, which
// is no longer set by the rows.
TEST(ColumnSums, AreThoseOfManyParts) {
  for (const std::uint32_t rows : {70'000U, 140'001U}) {
    for (const std::uint32_t columns : {3U, 8U}) {
      check_case<float>({rows, columns, false, true});
      check_case<Bf16>({rows, columns, true, false});
    }
  }
}

}  // namespace
}  // namespace ddpbench::ops::cuda
