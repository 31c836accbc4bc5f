// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives between ranks that share memory, each with its cost. Costs are given for n ranks
// and operations of S bytes.
#pragma once

#include "parallel/comm/all_reduce_algorithm.h"
#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

// All-reduce, by the ring or directly (all_reduce.cpp has the costs), and reduce, which is half of
// the direct all-reduce. Returns the algorithm that ran. The ring needs memory that all peers can
// map; where one rank's is staged, all ranks run the direct algorithm and not `wanted`. Operations
// that fit into mailboxes (is_small) are direct unless the ring is wanted.
AllReduceAlgorithm run_all_reduce(Collective& c, AllReduceAlgorithm wanted);
void run_reduce(Collective& c);

// What AllReduceAlgorithm::automatic runs between so many ranks.
AllReduceAlgorithm automatic_all_reduce(int ranks);

// The collectives between a root and the others, in 1 step. Broadcast: every other rank reads S
// bytes of the root's memory, all at once. Scatter: each reads a different part of S bytes. Gather:
// the root reads (n - 1) S bytes.
//
// Memory that peers cannot map passes through the staging area in pieces: kLanes of them are in
// flight, so that one side fills a piece while the other empties another.
void run_broadcast(Collective& c);
void run_scatter(Collective& c);
void run_gather(Collective& c);

// The collectives in which every rank exposes memory and reads from all others, in 1 step. Each
// rank reads (n - 1) / n * S bytes, where S is the size of all parts together.
void run_reduce_scatter(Collective& c);
void run_all_gather(Collective& c);

// Collectives of a few kilobytes, where latency counts most. Every rank puts its input into its
// mailbox as it enters, and the ranks that need it read it there. This takes one step, and no rank
// waits for its readers, because a mailbox is not used again before kHistory collectives later. A
// rank reads up to (n - 1) S bytes. For an all-reduce that is n / 2 times what the ring reads, in 1
// step instead of 2 (n - 1).
//
// All ranks reduce the same mailboxes in the order of ranks 0, 1, ...: all get the same bits.
//
// Whether every rank's part of the operation fits into a mailbox. Barriers are always small.
bool is_small(const Operation& operation, int size);
bool is_small(OperationKind kind, std::size_t part_bytes, int size);
// REQUIRES: is_small.
void run_small(Collective& c);

}  // namespace ddpbench::comm
