// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mixes 64-bit values into a hash, for comparing plans and parameters between ranks. It is no
// defence against forgery.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace ddpbench {

constexpr std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t value) {
  return split_mix(hash * 0x9e3779b97f4a7c15u + value + 0x2545f4914f6cdd1du);
}

// Equal bytes give equal hashes.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace ddpbench
