// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ring all-reduce of registered memory, in place: reduce-scatter, then all-gather.
// Cost for n ranks and S bytes: 2 (n - 1) steps; each rank reads 2 (n - 1) / n * S bytes of its
// left neighbour and nothing of anybody else.
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
// step, from its own input, which r + 1 read at step 0). So whoever sees the result published knows
// that the partial sum has been read. This holds segment by segment. Chunk c is added in the order
// of ranks c, c + 1, ..., by each rank in turn, and copied everywhere: all ranks and all runs get
// the same bits.
#include "parallel/comm/shm/collectives/all_reduce.h"

namespace ddpbench::comm {

namespace {

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
    for (std::size_t s = 0; s < chunks.segments(); ++s) {
      if (number > 0) c.await(left, position_of(number - 1, s));
      const Segment segment = chunks.segment((chunk + c.size()) % c.size(), s);
      if (segment.bytes > 0) work(segment);
      c.publish(position_of(number, s));
    }
  }
};

}  // namespace

void all_reduce_ring(Collective& c, const ExchangeWindow& window) {
  const int n = c.size();
  const int left = (c.rank() + n - 1) % n;
  Ring ring{c, Chunks(window.bytes(0), n), window.at(c.rank(), 0, 0), window.at(left, 0, 0), left};
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
  c.finish_reading();
  c.await_finished((c.rank() + 1) % n);
}

}  // namespace ddpbench::comm
