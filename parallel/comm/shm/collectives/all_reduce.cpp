// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/collectives.h"

namespace ddpbench::comm {

namespace {

// ---- the ring ----

// Ring all-reduce, in place: reduce-scatter, then all-gather.
// Cost for n ranks and S bytes: 2 (n - 1) steps; each rank reads 2 (n - 1) / n * S bytes of its
// left neighbour and nothing of any other rank.
//
// "Rank r sends to r + 1" is here: r + 1 reads from r's memory, when r has published the segment.
//   reduce-scatter, step t: rank r adds its left neighbour's chunk r - t - 1 to its own.
//   all-gather, step t:     rank r copies chunk r - t from its left neighbour.
// After the n - 1 steps of the first, r holds the sum of chunk r - (n - 2) - 1 = r + 1 (mod n), so
// its left neighbour holds that of chunk r, with which the second begins.
//
// Why it may be in place. In reduce-scatter r writes its chunk r - t - 1 at step t; its only
// reader, r + 1, reads that chunk at step t + 1, after r published it. In all-gather r overwrites
// its partial sum of a chunk c with the result. The partial sum was read by r + 1 at some step of
// the reduce-scatter, and the result of c was made from what r + 1 computed then (or, for r's first
// step, from its own input, which r + 1 read at step 0). So a rank that sees the result published
// knows that the partial sum has been read. This holds segment by segment. Chunk c is added in the
// order of ranks c, c + 1, ..., by each rank in turn, and copied everywhere: all ranks and all runs
// get the same bits.
struct Ring {
  Collective& c;
  Chunks chunks;
  std::byte* own;
  std::byte* left_memory;
  int left;

  // Positions: step 1 is entering; then one a segment of each of the 2 (n - 1) ring steps.
  std::uint64_t position_of(int step, std::size_t segment) const {
    return 2 + static_cast<std::uint64_t>(step) * chunks.segments() + segment;
  }

  template <typename Work>
  void step(int number, int chunk, Work&& work) {
    std::size_t taken = 0;
    for (std::size_t s = 0; s < chunks.segments(); ++s) {
      if (number > 0) c.await(left, position_of(number - 1, s));
      const Segment segment = chunks.segment((chunk + c.size()) % c.size(), s);
      if (segment.bytes > 0) work(segment);
      taken += segment.bytes;
      c.publish(position_of(number, s));
    }
    c.count_taken(left, taken);
  }
};

void all_reduce_ring(Collective& c) {
  const Elements& data = c.operation().in;
  const int n = c.size();
  const int left = (c.rank() + n - 1) % n;
  c.begin();
  c.enter(data);
  c.await_all_entered();
  Ring ring{c, Chunks(data.bytes(), n), c.exposed(c.rank(), data.bytes()),
            c.exposed(left, data.bytes()), left};
  for (int t = 0; t < n - 1; ++t) {
    ReduceSpec spec = c.reduce_spec();
    if (t < n - 2) spec.divisor = 1;  // an average divides the complete sum
    ring.step(t, c.rank() - t - 1, [&](const Segment& s) {
      std::byte* const target = ring.own + s.offset;
      const std::byte* const sources[] = {target, ring.left_memory + s.offset};
      c.reduce_to(target, sources, s.bytes, spec);
    });
  }
  for (int t = 0; t < n - 1; ++t) {
    ring.step(n - 1 + t, c.rank() - t, [&](const Segment& s) {
      c.copy(ring.own + s.offset, ring.left_memory + s.offset, s.bytes);
    });
  }
  if (ring.own != data.data) c.copy(data.view().data, ring.own, data.bytes());
  c.finish_reading();
  c.await_finished((c.rank() + 1) % n);
}

// ---- direct ----

// Direct all-reduce and reduce: rank r reduces chunk r from all ranks' memory at once, then all
// ranks (or the root) copy the other chunks from the ranks that own them. Cost for n ranks
// and S bytes: 2 steps; a rank reads (n - 1) / n * S of its peers' bytes in each, as the ring does,
// but writes each partial sum to its L1 cache and not to memory n - 1 times. For two ranks it is
// the ring: the left neighbour is the only peer.
//
// Why it may be in place. Only rank r reads chunk r of its peers, in the first step, and it reads
// segment s of it from all of them before it publishes its result. In the second step a peer
// overwrites its own chunk r, segment s, after it has seen that published. What a rank's peers read
// in the second step is its own chunk, which it does not write any more.
// Chunk r is added in the order of ranks r, r + 1, ..., by rank r alone: all get the same bits.
void reduce_own_chunk(Collective& c, const Chunks& chunks) {
  const int n = c.size();
  const std::size_t bytes = c.operation().in.bytes();
  const std::span<const std::byte*> sources = c.run().sources;
  std::byte* const own = c.exposed(c.rank(), bytes);
  for (std::size_t s = 0; s < chunks.segments(); ++s) {
    const Segment segment = chunks.segment(c.rank(), s);
    for (int i = 0; i < n; ++i) {
      sources[static_cast<std::size_t>(i)] = c.exposed((c.rank() + i) % n, bytes) + segment.offset;
    }
    c.reduce_to(own + segment.offset, sources, segment.bytes, c.reduce_spec());
    c.publish(2 + s);
    for (int i = 1; i < n; ++i) c.count_taken((c.rank() + i) % n, segment.bytes, s > 0);
  }
}

void gather_chunks(Collective& c, const Chunks& chunks) {
  const BufferView target = c.operation().in.view();
  for (int i = 0; i < c.size(); ++i) {
    const int owner = (c.rank() + i) % c.size();
    const std::byte* const source = c.exposed(owner, target.bytes);
    if (source == target.data) continue;  // this rank's own chunk is in place
    for (std::size_t s = 0; s < chunks.segments(); ++s) {
      const Segment segment = chunks.segment(owner, s);
      c.await(owner, 2 + s);
      c.copy(target.data + segment.offset, source + segment.offset, segment.bytes);
      if (i > 0) c.count_taken(owner, segment.bytes, s > 0);
    }
  }
}

void all_reduce_direct(Collective& c) {
  const Operation& o = c.operation();
  const Chunks chunks(o.in.bytes(), c.size());
  c.begin();
  c.enter(o.in);
  c.await_all_entered();
  reduce_own_chunk(c, chunks);
  if (o.kind == OperationKind::all_reduce || o.root == c.rank()) gather_chunks(c, chunks);
  c.finish_reading();
  c.await_all_finished();
}

}  // namespace

AllReduceAlgorithm automatic_all_reduce(int ranks) {
  // Beyond these, a rank would read from more memory streams at once than hardware prefetchers
  // follow (about 16 a core on current processors).
  constexpr int kMostDirectRanks = 16;
  return ranks > kMostDirectRanks ? AllReduceAlgorithm::ring : AllReduceAlgorithm::direct;
}

AllReduceAlgorithm run_all_reduce(Collective& c, AllReduceAlgorithm wanted) {
  if (wanted != AllReduceAlgorithm::ring && is_small(c.operation(), c.size())) {
    run_small(c);
    return AllReduceAlgorithm::direct;
  }
  if (wanted == AllReduceAlgorithm::automatic) wanted = automatic_all_reduce(c.size());
  if (wanted == AllReduceAlgorithm::ring) {
    all_reduce_ring(c);
  } else {
    all_reduce_direct(c);
  }
  return wanted;
}

void run_reduce(Collective& c) { all_reduce_direct(c); }

}  // namespace ddpbench::comm
