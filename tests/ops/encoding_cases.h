// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings by plain loops, for comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/ops/encoding.h"
#include "kernels/runtime/bfloat16.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {

using Kind = Encoding::Kind;

inline const std::vector<Encoding>& encoding_cases() {
  static const std::vector<Encoding> all = {{Kind::bf16},         {Kind::fp16},
                                            {Kind::int8},         {Kind::largest, 1},
                                            {Kind::largest, 100}, {Kind::largest, 4096}};
  return all;
}

// Of whole runs and the elements beside them, and enough for a team.
inline constexpr std::int64_t kEncodedCounts[] = {1, 7, 8, 255, 256, 257, 4096, 4101, 40009};

// What `values` are after encoding and decoding.
inline std::vector<double> plain_roundtrip(const Encoding& encoding,
                                           const std::vector<double>& values) {
  std::vector<double> result(values.size());
  const std::size_t run = encoding.is_cast() ? 1 : encoding.run();
  for (std::size_t first = 0; first < values.size(); first += run) {
    const std::size_t end = std::min(values.size(), first + run);
    if (encoding.kind == Kind::bf16) {
      result[first] = BFloat16::round(static_cast<float>(values[first]));
    } else if (encoding.kind == Kind::fp16) {
      result[first] = static_cast<float>(static_cast<_Float16>(static_cast<float>(values[first])));
    } else if (encoding.kind == Kind::int8) {
      double most = 0;
      for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(values[i]));
      for (std::size_t i = first; i < end && most > 0; ++i) {
        result[i] = std::nearbyint(values[i] * 127 / most) * most / 127;
      }
    } else {
      std::vector<std::size_t> order(end - first);
      std::iota(order.begin(), order.end(), first);
      std::ranges::stable_sort(order, std::ranges::greater(),
                               [&](std::size_t i) { return std::abs(values[i]); });
      order.resize((order.size() * encoding.kept + 4095) / 4096);
      for (const std::size_t i : order) result[i] = values[i];
    }
  }
  return result;
}

// A thin matrix. One column may depend on others, another be zeros.
struct ThinMatrix {
  std::size_t rows, width;
  Values values;
};

inline std::vector<ThinMatrix> thin_matrices() {
  std::vector<ThinMatrix> all = {{3, 1, {}}, {33, 4, {}}, {300, 7, {}}, {130, 64, {}}, {33, 4, {}}};
  for (ThinMatrix& one : all)
    one.values = random_values(static_cast<std::int64_t>(one.rows * one.width), 1);
  ThinMatrix& last = all.back();
  for (std::size_t i = 0; i < last.values.size(); i += last.width) {
    last.values[i + 2] = 0;
    last.values[i + 3] = last.values[i] + last.values[i + 1];
  }
  return all;
}

// That columns have length 1 and are at right angles, and the first one's direction is as before.
inline void expect_orthonormal(const ThinMatrix& before, const Values& after) {
  const std::size_t width = before.width;
  const auto product = [&](const Values& other, std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < after.size(); i += width)
      sum += static_cast<double>(after[i + a]) * static_cast<double>(other[i + b]);
    return sum;
  };
  for (std::size_t a = 0; a < width; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      EXPECT_NEAR(product(after, a, b), a == b ? 1 : 0, 1e-5) << a << " " << b;
  double length = 0;
  for (std::size_t i = 0; i < after.size(); i += width)
    length += static_cast<double>(before.values[i]) * before.values[i];
  EXPECT_NEAR(product(before.values, 0, 0), std::sqrt(length), 1e-5 * std::sqrt(length));
}

}  // namespace ddpbench::ops::testing
