// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A call of a Communicator as all its ranks see it, to plan what it sends, and the patterns that
// backends' algorithms have in common.
#pragma once

#include <cstddef>
#include <functional>

#include "parallel/comm/link_traffic.h"
#include "parallel/comm/operation.h"

namespace ddpbench::comm {

struct LinkCall {
  OperationKind kind = OperationKind::barrier;  // send: of a message; there is no recv
  int ranks = 0;                                // that take part: 0, 1, ...; unused of a message
  int root = 0;                                 // of rooted collectives; the sender of a message
  int receiver = 0;                             // of a message
  std::size_t bytes = 0;                        // of one rank's part (Operation::part)
  std::size_t width = 4;  // bytes of an element, at which messages are cut; gradients are fp32
};

// Each adds what the ranks of a call send each other.
void add_from_root(const LinkCall& call, LinkTraffic& traffic);  // each rank gets `bytes`
void add_to_root(const LinkCall& call, LinkTraffic& traffic);
void add_all_to_all(const LinkCall& call, std::size_t bytes, LinkTraffic& traffic);
// Calls that every backend carries out alike: parts of collectives go to their ranks at once, and
// messages to their receiver; nothing goes to itself. Throws InternalError for other kinds.
void add_parts(const LinkCall& call, LinkTraffic& traffic);

// The bytes of the chunk that a rank reduces.
using ChunkBytes = std::function<std::size_t(int rank)>;
// An all-reduce in 2 (n - 1) steps around the ring.
void add_ring(const LinkCall& call, const ChunkBytes& chunk, LinkTraffic& traffic);
// An all-reduce or reduce: each rank takes its chunk of all others, then all, or the root, take the
// others' results.
void add_direct(const LinkCall& call, const ChunkBytes& chunk, LinkTraffic& traffic);

}  // namespace ddpbench::comm
