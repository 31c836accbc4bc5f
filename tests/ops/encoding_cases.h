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

}  // namespace ddpbench::ops::testing
