// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same on every machine and standard library (std::shuffle and the
// std distributions are not), hashes made of the same mixer, and random text that cannot be
// guessed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "base/math.h"

namespace ddpbench {

// The finaliser of SplitMix64: a bijection in which each bit of the result depends on all of `z`.
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Mixes 64-bit values into a hash, for comparing plans and parameters between ranks. It is no
// defence against forgery.
constexpr std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t value) {
  return split_mix(hash * 0x9e3779b97f4a7c15u + value + 0x2545f4914f6cdd1du);
}

// Equal bytes give equal hashes.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

// These add to a hash: a text, or a list of whole numbers with its length.
inline std::uint64_t hash_text(std::uint64_t hash, std::string_view text) {
  return hash_bytes(text.data(), text.size(), hash);
}
template <typename Integers>
std::uint64_t hash_integers(std::uint64_t hash, const Integers& values) {
  hash = combine_hash(hash, std::size(values));
  for (const auto value : values) hash = combine_hash(hash, static_cast<std::uint64_t>(value));
  return hash;
}

// So many random bytes (at most 256) in hexadecimal, from the system's source. Throws InternalError
// when the system gives none.
std::string random_hex(std::size_t bytes);

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
// increment and mixing constants as published there, variant 13 of Stafford's mixers).
class SplitMix64 {
 public:
  // The generator as published, whose state begins at `state`. Neighbouring states give overlapping
  // sequences.
  constexpr explicit SplitMix64(std::uint64_t state) : state_(state) {}
  // One independent stream for each (seed, stream). Both are mixed before they are combined, so
  // that neighbouring numbers do not give overlapping sequences.
  constexpr SplitMix64(std::uint64_t seed, std::uint64_t stream)
      : state_(split_mix(seed + kIncrement) ^ split_mix(split_mix(stream + 2 * kIncrement))) {}

  constexpr std::uint64_t next() { return split_mix(state_ += kIncrement); }

  // Uniform in [0, 1), with 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in [0, bound), without bias (Lemire, "Fast random integer generation in an interval",
  // 2019: multiply, and reject the few products that fall into the short interval).
  // REQUIRES: bound > 0.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = (next() >> 32) * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t short_interval = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < short_interval) {
        product = (next() >> 32) * bound;
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  static constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15;

  std::uint64_t state_;
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11,
// section 3.3). For each 64-bit key it is a bijection of 128-bit counters. It passes BigCrush.
using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr int kPhiloxRounds = 10;

// One round on the words c0 to c3 of a counter. It is a function of its own, so that a loop can run
// it on many counters at a time.
DDPBENCH_HOST_DEVICE constexpr void philox_round(std::uint32_t& c0, std::uint32_t& c1,
                                                 std::uint32_t& c2, std::uint32_t& c3,
                                                 std::uint32_t key0, std::uint32_t key1) {
  // Multipliers of the paper.
  const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c0;
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * c2;
  c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
  c1 = static_cast<std::uint32_t>(product1);
  c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
  c3 = static_cast<std::uint32_t>(product0);
}

// The key of the next round: Weyl increments (golden ratio, sqrt(3) - 1) of the paper.
DDPBENCH_HOST_DEVICE constexpr void philox_next_key(std::uint32_t& key0, std::uint32_t& key1) {
  key0 += 0x9E3779B9;
  key1 += 0xBB67AE85;
}

DDPBENCH_HOST_DEVICE constexpr void philox4x32(std::uint32_t (&c)[4], std::uint32_t key0,
                                               std::uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(c[0], c[1], c[2], c[3], key0, key1);
    philox_next_key(key0, key1);
  }
}

constexpr PhiloxCounter philox4x32(const PhiloxCounter& counter, const PhiloxKey& key) {
  std::uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox4x32(c, key[0], key[1]);
  return {c[0], c[1], c[2], c[3]};
}

}  // namespace ddpbench
