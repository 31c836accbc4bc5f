// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers: the sequences of seeds, on which recorded results depend; and hashes.
#include "base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace ddpbench {
namespace {

// The reference implementation's first numbers (Vigna, splitmix64.c) from state 1234567.
TEST(SplitMix, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(SplitMix, GivesEachStreamOfASeedASequenceOfItsOwn) {
  std::set<std::uint64_t> first;
  for (std::uint64_t stream = 0; stream < 100; ++stream) {
    first.insert(SplitMix64(7, stream).next());
    first.insert(SplitMix64(8, stream).next());
  }
  EXPECT_EQ(first.size(), 200U);
}

TEST(SplitMix, StaysBelowItsBoundAndReachesAllOfIt) {
  SplitMix64 random(1, 2);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform(-2, 3);
    EXPECT_GE(value, -2);
    EXPECT_LT(value, 3);
  }
  EXPECT_EQ(random.below(1), 0U);
}

// Short data goes through one chain, long data through several, with words and bytes left over.
TEST(HashBytes, DependsOnEveryByteAndOnTheirNumber) {
  for (const std::size_t bytes : {0U, 7U, 8U, 1023U, 1024U, 1063U, 5000U}) {
    std::vector<unsigned char> data(bytes + 1, 0);
    std::set<std::uint64_t> seen = {hash_bytes(data.data(), bytes),
                                    hash_bytes(data.data(), bytes, 1),
                                    hash_bytes(data.data(), bytes + 1)};
    for (std::size_t i = 0; i < bytes; ++i) {
      data[i] = 1;
      seen.insert(hash_bytes(data.data(), bytes));
      data[i] = 0;
    }
    EXPECT_EQ(seen.size(), bytes + 3) << bytes;
    EXPECT_EQ(hash_bytes(data.data(), bytes), hash_bytes(std::vector(data).data(), bytes));
  }
}

// Files hold hashes: one that changes makes them look damaged.
TEST(HashBytes, OfShortAndLongDataStaysTheSame) {
  std::vector<unsigned char> data(1100);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  EXPECT_EQ(hash_bytes(data.data(), 11), 0xb75d3f15a2b3c224U);
  EXPECT_EQ(hash_bytes(data.data(), data.size()), 0xe2b1bc486477c97fU);
}

TEST(HashBytes, DependsOnTheOrderOfWordsThatDifferentChainsTake) {
  std::vector<std::uint64_t> words(256, 0);
  words[4] = 5;
  words[5] = 9;
  const std::uint64_t before = hash_bytes(words.data(), words.size() * sizeof(words[0]));
  std::swap(words[4], words[5]);
  EXPECT_NE(hash_bytes(words.data(), words.size() * sizeof(words[0])), before);
}

}  // namespace
}  // namespace ddpbench
