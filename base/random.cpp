// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

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

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 256> random{};  // reads of so many are never cut short
  ensure(bytes <= random.size(), "{} random bytes at once", bytes);
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw InternalError(fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
  }
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", random[i]);
  return text;
}

}  // namespace ddpbench
