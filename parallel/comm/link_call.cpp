// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/link_call.h"

#include "base/error.h"

namespace ddpbench::comm {
namespace {

// Calls visit(peer) for all ranks beside `rank`.
template <typename Visit>
void for_peers(int ranks, int rank, Visit&& visit) {
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank) visit(peer);
  }
}

}  // namespace

void add_from_root(const LinkCall& call, LinkTraffic& traffic) {
  for_peers(call.ranks, call.root,
            [&](int peer) { traffic.between(call.root, peer).add_message(call.bytes); });
}

void add_to_root(const LinkCall& call, LinkTraffic& traffic) {
  for_peers(call.ranks, call.root,
            [&](int peer) { traffic.between(peer, call.root).add_message(call.bytes); });
}

void add_all_to_all(const LinkCall& call, std::size_t bytes, LinkTraffic& traffic) {
  for (int rank = 0; rank < call.ranks; ++rank) {
    for_peers(call.ranks, rank, [&](int peer) { traffic.between(peer, rank).add_message(bytes); });
  }
}

void add_parts(const LinkCall& call, LinkTraffic& traffic) {
  switch (call.kind) {
    case OperationKind::all_gather:
    case OperationKind::reduce_scatter:
      return add_all_to_all(call, call.bytes, traffic);
    case OperationKind::scatter:
      return add_from_root(call, traffic);
    case OperationKind::gather:
      return add_to_root(call, traffic);
    case OperationKind::send:
      if (call.root == call.receiver) return;
      return traffic.between(call.root, call.receiver).add_message(call.bytes);
    default:
      throw InternalError("a message is planned by its send");
  }
}

// Rank r passes each of its chunks but r + 1 on in the reduce-scatter, and each but r + 2 in the
// all-gather.
void add_ring(const LinkCall& call, const ChunkBytes& chunk, LinkTraffic& traffic) {
  const int n = call.ranks;
  for (int rank = 0; rank < n; ++rank) {
    Traffic& link = traffic.between(rank, (rank + 1) % n);
    for (int t = 0; t < n - 1; ++t) {
      link.add_message(chunk((rank - t + n) % n));
      link.add_message(chunk((rank + 1 - t + n) % n));
    }
  }
}

void add_direct(const LinkCall& call, const ChunkBytes& chunk, LinkTraffic& traffic) {
  for (int rank = 0; rank < call.ranks; ++rank) {
    const bool gets_result = call.kind == OperationKind::all_reduce || rank == call.root;
    for_peers(call.ranks, rank, [&](int peer) {
      Traffic& link = traffic.between(peer, rank);
      link.add_message(chunk(rank));
      if (gets_result) link.add_message(chunk(peer));
    });
  }
}

}  // namespace ddpbench::comm
