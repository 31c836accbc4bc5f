// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the collectives over messages send, and how they cut their buffers.
#pragma once

#include <cstddef>

#include "parallel/comm/all_reduce_algorithm.h"
#include "parallel/comm/link_call.h"
#include "parallel/comm/link_traffic.h"

namespace ddpbench::comm {

// Up to here every rank sends all it has to every other, which takes one step in place of two.
inline constexpr std::size_t kSmallWireBytes = std::size_t{64} << 10;

// The elements of a buffer of `count` that are the chunk of a rank.
struct WireChunk {
  std::size_t begin = 0, end = 0;
};
constexpr WireChunk wire_chunk(std::size_t count, int ranks, int rank) {
  const auto n = static_cast<std::size_t>(ranks), place = static_cast<std::size_t>(rank);
  return {count * place / n, count * (place + 1) / n};
}

// The algorithm that runs when `wanted` was asked for. Automatic: direct for few bytes, else
// automatic_wire_all_reduce(ranks).
AllReduceAlgorithm wire_all_reduce(AllReduceAlgorithm wanted, int ranks, std::size_t bytes);
// What AllReduceAlgorithm::automatic runs between so many ranks, for what is not small.
AllReduceAlgorithm automatic_wire_all_reduce(int ranks);

// Adds what the ranks send each other in a call, with the all-reduce that was asked for. Notices
// (WireLink::tell) are not counted.
void add_wire_traffic(const LinkCall& call, AllReduceAlgorithm wanted, LinkTraffic& traffic);

}  // namespace ddpbench::comm
