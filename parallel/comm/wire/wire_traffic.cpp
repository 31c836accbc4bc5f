// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/wire/wire_traffic.h"

namespace ddpbench::comm {
namespace {

ChunkBytes chunk_bytes(const LinkCall& call) {
  return [call](int rank) {
    const WireChunk chunk = wire_chunk(call.bytes / call.width, call.ranks, rank);
    return (chunk.end - chunk.begin) * call.width;
  };
}

void add_all_reduce(const LinkCall& call, AllReduceAlgorithm wanted, LinkTraffic& traffic) {
  if (wire_all_reduce(wanted, call.ranks, call.bytes) == AllReduceAlgorithm::ring) {
    return add_ring(call, chunk_bytes(call), traffic);
  }
  if (call.bytes <= kSmallWireBytes) return add_all_to_all(call, call.bytes, traffic);
  add_direct(call, chunk_bytes(call), traffic);
}

// The root sends each rank its chunk and the root's; ranks hand on theirs.
void add_broadcast(const LinkCall& call, LinkTraffic& traffic) {
  if (call.ranks == 2 || call.bytes <= kSmallWireBytes) return add_from_root(call, traffic);
  const ChunkBytes chunk = chunk_bytes(call);
  for (int rank = 0; rank < call.ranks; ++rank) {
    for (int peer = 0; peer < call.ranks; ++peer) {
      if (peer == rank || peer == call.root) continue;
      Traffic& link = traffic.between(rank, peer);
      link.add_message(chunk(rank));
      if (rank == call.root) link.add_message(chunk(peer));
    }
  }
}

}  // namespace

AllReduceAlgorithm automatic_wire_all_reduce(int ranks) {
  // With direct, n - 1 flows meet at each link. Measured over links of 1 Gbit/s and 100 Mbit/s
  // (docs/network-study.md): equal between 2 hosts, and ring nearer to the bound between 3, 4
  // and 8.
  constexpr int kFewestRingRanks = 3;
  return ranks >= kFewestRingRanks ? AllReduceAlgorithm::ring : AllReduceAlgorithm::direct;
}

AllReduceAlgorithm wire_all_reduce(AllReduceAlgorithm wanted, int ranks, std::size_t bytes) {
  if (wanted != AllReduceAlgorithm::automatic) return wanted;
  return bytes <= kSmallWireBytes ? AllReduceAlgorithm::direct : automatic_wire_all_reduce(ranks);
}

void add_wire_traffic(const LinkCall& call, AllReduceAlgorithm wanted, LinkTraffic& traffic) {
  switch (call.kind) {
    case OperationKind::all_reduce:
      return add_all_reduce(call, wanted, traffic);
    case OperationKind::reduce:
      return add_direct(call, chunk_bytes(call), traffic);
    case OperationKind::broadcast:
      return add_broadcast(call, traffic);
    case OperationKind::barrier:
      return add_all_to_all(call, 1, traffic);
    default:
      return add_parts(call, traffic);
  }
}

}  // namespace ddpbench::comm
