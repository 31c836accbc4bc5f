// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <array>
#include <cstring>

namespace ddpbench {
namespace {

std::uint64_t word_at(const unsigned char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

// Each word waits for the mix of the one before, so long data go through several chains at once.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::size_t kWord = sizeof(std::uint64_t), kChains = 4, kLong = 1024;
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t hash = combine_hash(seed, bytes);
  if (bytes >= kLong) {
    std::array<std::uint64_t, kChains> chains = {hash, hash, hash, hash};
    for (; bytes >= kChains * kWord; p += kChains * kWord, bytes -= kChains * kWord) {
      for (std::size_t i = 0; i < kChains; ++i) {
        chains[i] = combine_hash(chains[i], word_at(p + i * kWord));
      }
    }
    for (const std::uint64_t chain : chains) hash = combine_hash(hash, chain);
  }
  for (; bytes >= kWord; p += kWord, bytes -= kWord) hash = combine_hash(hash, word_at(p));
  std::uint64_t rest = 0;
  std::memcpy(&rest, p, bytes);
  return combine_hash(hash, rest);
}

}  // namespace ddpbench
