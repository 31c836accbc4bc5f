// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mixes 64-bit values into a hash, for comparing plans and parameters between ranks. It is no
// defence against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace ddpbench {

constexpr std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t value) {
  return split_mix(hash * 0x9e3779b97f4a7c15u + value + 0x2545f4914f6cdd1du);
}

// Equal bytes give equal hashes.
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t hash = combine_hash(seed, bytes);
  for (; bytes >= 8; p += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    hash = combine_hash(hash, word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, p, bytes);
  return combine_hash(hash, rest);
}

}  // namespace ddpbench
