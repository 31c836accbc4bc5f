// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// bf16 as code for the host reads and writes it: the upper half of an fp32.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace ddpbench {

struct BFloat16 {
  std::uint16_t bits;
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static BFloat16 round(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    // Rounds to nearest, ties to even. A NaN keeps its upper bits and stays a NaN by the quiet bit.
    const std::uint32_t rounded = (wide + 0x7fffU + (wide >> 16 & 1)) >> 16;
    const std::uint32_t nan = wide >> 16 | 0x40U;
    return {static_cast<std::uint16_t>((wide & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
  }
};

// `value` as an element of type T.
template <typename T>
inline T from_float(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16::round(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace ddpbench
