// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element types of device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddpbench {

enum class DataType : std::uint8_t { fp32, fp64, bf16, fp16, int32, int64, uint8 };

constexpr std::size_t size_of(DataType type) {
  constexpr std::array<std::size_t, 7> kSizes = {4, 8, 2, 2, 4, 8, 1};
  return kSizes[static_cast<std::size_t>(type)];
}
constexpr std::string_view to_string(DataType type) {
  constexpr std::array<std::string_view, 7> kNames = {"fp32",  "fp64",  "bf16", "fp16",
                                                      "int32", "int64", "uint8"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace ddpbench
