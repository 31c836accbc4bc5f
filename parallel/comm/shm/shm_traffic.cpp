// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The traffic of the collectives, from their algorithms.
#include "base/error.h"
#include "parallel/comm/shm/collectives/chunks.h"
#include "parallel/comm/shm/collectives/collectives.h"
#include "parallel/comm/shm/shm.h"

namespace ddpbench::comm {
namespace {

// Calls visit(peer) for all ranks beside `rank`.
template <typename Visit>
void for_peers(int ranks, int rank, Visit&& visit) {
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank) visit(peer);
  }
}

void add_from_root(const LinkCall& call, LinkTraffic& traffic) {
  for_peers(call.ranks, call.root,
            [&](int peer) { traffic.between(call.root, peer).add_message(call.bytes); });
}

void add_to_root(const LinkCall& call, LinkTraffic& traffic) {
  for_peers(call.ranks, call.root,
            [&](int peer) { traffic.between(peer, call.root).add_message(call.bytes); });
}

void add_all_to_all(const LinkCall& call, LinkTraffic& traffic) {
  for (int rank = 0; rank < call.ranks; ++rank) {
    for_peers(call.ranks, rank,
              [&](int peer) { traffic.between(peer, rank).add_message(call.bytes); });
  }
}

// Rank r passes each of its chunks but r + 1 on in the reduce-scatter, and each but r + 2 in the
// all-gather (all_reduce.cpp).
void add_ring(const LinkCall& call, LinkTraffic& traffic) {
  const int n = call.ranks;
  const Chunks chunks(call.bytes, n);
  for (int rank = 0; rank < n; ++rank) {
    Traffic& link = traffic.between(rank, (rank + 1) % n);
    for (int t = 0; t < n - 1; ++t) {
      link.add_message(chunks.bytes((rank - t + n) % n));
      link.add_message(chunks.bytes((rank + 1 - t + n) % n));
    }
  }
}

// Each rank takes its chunk of all others. Then all, or the root, take the others' chunks.
void add_direct(const LinkCall& call, LinkTraffic& traffic) {
  const Chunks chunks(call.bytes, call.ranks);
  for (int rank = 0; rank < call.ranks; ++rank) {
    const bool gets_result = call.kind == OperationKind::all_reduce || rank == call.root;
    for_peers(call.ranks, rank, [&](int peer) {
      Traffic& link = traffic.between(peer, rank);
      link.add_message(chunks.bytes(rank));
      if (gets_result) link.add_message(chunks.bytes(peer));
    });
  }
}

// All-reduce and reduce through mailboxes: every rank, or the root, reads the whole input of all.
void add_small_reduction(const LinkCall& call, LinkTraffic& traffic) {
  if (call.kind == OperationKind::all_reduce) return add_all_to_all(call, traffic);
  add_to_root(call, traffic);
}

}  // namespace

void add_shm_traffic(const LinkCall& call, AllReduceAlgorithm wanted, LinkTraffic& traffic) {
  const bool wants_ring = wanted == AllReduceAlgorithm::ring;
  switch (call.kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce: {
      const bool reduces_to_all = call.kind == OperationKind::all_reduce;
      if (!(reduces_to_all && wants_ring) && is_small(call.kind, call.bytes, call.ranks)) {
        return add_small_reduction(call, traffic);
      }
      if (wanted == AllReduceAlgorithm::automatic) wanted = automatic_all_reduce(call.ranks);
      if (reduces_to_all && wanted == AllReduceAlgorithm::ring) return add_ring(call, traffic);
      return add_direct(call, traffic);
    }
    case OperationKind::all_gather:
    case OperationKind::reduce_scatter:
      return add_all_to_all(call, traffic);
    case OperationKind::broadcast:
    case OperationKind::scatter:
      return add_from_root(call, traffic);
    case OperationKind::gather:
      return add_to_root(call, traffic);
    case OperationKind::send:
      if (call.root == call.receiver) return;
      return traffic.between(call.root, call.receiver).add_message(call.bytes);
    case OperationKind::barrier:
      return;
    case OperationKind::recv:
      break;
  }
  throw InternalError("a message is planned by its send");
}

}  // namespace ddpbench::comm
