// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the stand-in know of its memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddpbench::test {

// Whether `bytes` at `address` are device memory or locked host memory.
bool can_be_reached(std::uint64_t address, std::size_t bytes);

}  // namespace ddpbench::test
