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
  switch (type) {
    case DataType::fp64:
    case DataType::int64:
      return 8;
    case DataType::fp32:
    case DataType::int32:
      return 4;
    case DataType::bf16:
    case DataType::fp16:
      return 2;
    case DataType::uint8:
      return 1;
  }
  return 0;
}
constexpr std::string_view to_string(DataType type) {
  constexpr std::array<std::string_view, 7> kNames = {"fp32",  "fp64",  "bf16", "fp16",
                                                      "int32", "int64", "uint8"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace ddpbench
