// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives between ranks that share memory, with their costs for n ranks and S bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/shm/collectives/collective.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

// All-reduce, by the ring or directly (all_reduce.cpp has the costs), and reduce, which is half of
// the direct all-reduce. Returns the algorithm that ran. Operations that fit into mailboxes
// (is_small) are direct unless the ring is wanted.
AllReduceAlgorithm run_all_reduce(Collective& c, AllReduceAlgorithm wanted);
void run_reduce(Collective& c);

// What AllReduceAlgorithm::automatic runs between so many ranks.
AllReduceAlgorithm automatic_all_reduce(int ranks);

// The other collectives, but barriers. Those between a root and the others take 1 step. Broadcast:
// every other rank reads S bytes of the root's memory, all at once. Scatter: each reads a different
// part of S bytes. Gather: the root reads (n - 1) S bytes. In reduce-scatter and all-gather, in 1
// step, every rank exposes memory and reads (n - 1) / n * S bytes of the others', where S is the
// size of all parts together.
void run_large(Collective& c);

// Whether every rank's part of the operation fits into a mailbox. Barriers are always small.
bool is_small(const Operation& operation, int size);
bool is_small(OperationKind kind, std::size_t part_bytes, int size);
// Every rank puts its input into its mailbox as it enters, and the ranks that need it read it
// there: one step, in which a rank reads up to (n - 1) S bytes. No rank waits for its readers,
// because a mailbox is not used again before kHistory collectives later. All ranks reduce the same
// mailboxes in the order of ranks 0, 1, ...: all get the same bits. REQUIRES: is_small.
void run_small(Collective& c);

// How the buffer of an all-reduce is cut: into chunks, one a rank, and those into segments.
// Segments are published one by one, so that a peer works on a segment while it is still in the
// cache of the core that made it.
inline constexpr std::size_t kSegmentBytes = 64 << 10;

struct Segment {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

class Chunks {
 public:
  // `bytes` cut for `ranks`; boundaries are multiples of a cache line, so that no line has two
  // writers, and the last chunks may be shorter or empty.
  Chunks(std::size_t bytes, int ranks)
      : bytes_(bytes),
        chunk_bytes_(round_up(ceil_div(bytes, static_cast<std::size_t>(ranks)), kCacheLineBytes)) {}

  // The number of segments in a chunk; all chunks have the same.
  std::size_t segments() const { return ceil_div(chunk_bytes_, kSegmentBytes); }
  Segment segment(int chunk, std::size_t number) const {
    const std::size_t from = std::min(end(chunk), begin(chunk) + number * kSegmentBytes);
    return {from, std::min(end(chunk), from + kSegmentBytes) - from};
  }

 private:
  std::size_t begin(int chunk) const {
    return std::min(bytes_, static_cast<std::size_t>(chunk) * chunk_bytes_);
  }
  std::size_t end(int chunk) const { return std::min(bytes_, begin(chunk) + chunk_bytes_); }

  std::size_t bytes_;
  std::size_t chunk_bytes_;
};

}  // namespace ddpbench::comm
