// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Rounding of sizes.
#pragma once

#include <cstddef>

namespace ddpbench::nn {

// The smallest multiple of `alignment` that is at least `bytes`.
constexpr std::size_t align_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace ddpbench::nn
