// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mixes 64-bit values into a hash, for comparing plans and parameters between ranks. It is no
// defence against forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace ddpbench {

constexpr std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t value) {
  return split_mix(hash * 0x9e3779b97f4a7c15u + value + 0x2545f4914f6cdd1du);
}

inline std::uint64_t hash_word(const unsigned char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// Equal bytes give equal hashes. Each word waits for the mix of the one before, so long data go
// through several chains at once.
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) {
  constexpr std::size_t kWord = sizeof(std::uint64_t), kChains = 4, kLong = 1024;
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t hash = combine_hash(seed, bytes);
  if (bytes >= kLong) {
    std::array<std::uint64_t, kChains> chains = {hash, hash, hash, hash};
    for (; bytes >= kChains * kWord; p += kChains * kWord, bytes -= kChains * kWord) {
      for (std::size_t i = 0; i < kChains; ++i) {
        chains[i] = combine_hash(chains[i], hash_word(p + i * kWord));
      }
    }
    for (const std::uint64_t chain : chains) hash = combine_hash(hash, chain);
  }
  for (; bytes >= kWord; p += kWord, bytes -= kWord) hash = combine_hash(hash, hash_word(p));
  std::uint64_t rest = 0;
  std::memcpy(&rest, p, bytes);
  return combine_hash(hash, rest);
}

}  // namespace ddpbench
