// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The traffic of the collectives, from their algorithms.
#include "parallel/comm/shm/collectives/collectives.h"
#include "parallel/comm/shm/shm.h"

namespace ddpbench::comm {
namespace {

// The chunks that a call's buffer is cut into, in bytes.
ChunkBytes chunk_bytes(const LinkCall& call) {
  return [chunks = Chunks(call.bytes, call.ranks)](int chunk) { return chunks.bytes(chunk); };
}

// All-reduce and reduce through mailboxes: every rank, or the root, reads the whole input of all.
void add_small_reduction(const LinkCall& call, LinkTraffic& traffic) {
  if (call.kind == OperationKind::all_reduce) return add_all_to_all(call, call.bytes, traffic);
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
      if (reduces_to_all && wanted == AllReduceAlgorithm::ring) {
        return add_ring(call, chunk_bytes(call), traffic);
      }
      return add_direct(call, chunk_bytes(call), traffic);
    }
    case OperationKind::broadcast:
      return add_from_root(call, traffic);
    case OperationKind::barrier:
      return;
    default:
      return add_parts(call, traffic);
  }
}

}  // namespace ddpbench::comm
