// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Direct all-reduce and reduce: rank r reduces chunk r from all ranks' memory at once, then
// everybody (or the root) copies the other chunks from the ranks that own them. Cost for n ranks
// and S bytes: 2 steps; a rank reads (n - 1) / n * S of its peers' bytes in each, as the ring does,
// but writes each partial sum to its L1 cache and not to memory n - 1 times. For two ranks it is
// the ring: the left neighbour is the only peer.
//
// Why it may be in place. Only rank r reads chunk r of its peers, in the first step, and it reads
// segment s of it from all of them before it publishes its result. In the second step a peer
// overwrites its own chunk r, segment s, after it has seen that published. What a rank's peers read
// in the second step is its own chunk, which it does not write any more.
// Chunk r is added in the order of ranks r, r + 1, ..., by rank r alone: all get the same bits.
#include "parallel/comm/shm/collectives/all_reduce.h"

namespace ddpbench::comm {

namespace {

class DirectRound {
 public:
  DirectRound(Collective& c, const ExchangeWindow& window, std::uint64_t round)
      : c_(c), window_(window), round_(round), chunks_(window.bytes(round), c.size()) {}

  // `ready` is the step at which the round's input is readable; segment s is done at ready + 1 + s.
  void reduce_own_chunk(std::uint64_t ready) {
    const int n = c_.size();
    const std::span<const std::byte*> sources = c_.run().sources;
    for (std::size_t s = 0; s < chunks_.segments(); ++s) {
      const Segment segment = chunks_.segment(c_.rank(), s);
      for (int i = 0; i < n; ++i) {
        sources[static_cast<std::size_t>(i)] =
            window_.at((c_.rank() + i) % n, 0, round_) + segment.offset;
      }
      std::byte* const target = window_.at(c_.rank(), 0, round_) + segment.offset;
      c_.reduce_to(target, sources, segment.bytes, c_.reduce_spec());
      c_.publish(ready + 1 + s);
    }
  }

  void gather_chunks(std::uint64_t ready) {
    const int n = c_.size();
    for (int i = 0; i < n; ++i) {
      const int owner = (c_.rank() + i) % n;
      std::byte* const target =
          static_cast<std::byte*>(c_.operation().in.data) + window_.offset(round_);
      const std::byte* const source = window_.at(owner, 0, round_);
      if (source == target) continue;  // this rank's own chunk is in place
      for (std::size_t s = 0; s < chunks_.segments(); ++s) {
        const Segment segment = chunks_.segment(owner, s);
        c_.await(owner, ready + 1 + s);
        c_.copy(target + segment.offset, source + segment.offset, segment.bytes);
      }
    }
  }

 private:
  Collective& c_;
  const ExchangeWindow& window_;
  const std::uint64_t round_;
  const Chunks chunks_;
};

bool gets_result(const Collective& c) {
  return c.operation().kind == OperationKind::all_reduce || c.operation().root == c.rank();
}

}  // namespace

void all_reduce_direct(Collective& c, ExchangeWindow& window) {
  const std::uint64_t steps_a_round = 1 + Chunks(window.piece_bytes(), c.size()).segments();
  for (std::uint64_t round = 0; round < window.rounds(); ++round) {
    const std::uint64_t ready = 1 + round * steps_a_round;
    if (round > 0) {
      window.fill(round);
      c.publish(ready);
      for (int i = 1; i < c.size(); ++i) c.await((c.rank() + i) % c.size(), ready);
    }
    DirectRound step(c, window, round);
    step.reduce_own_chunk(ready);
    if (gets_result(c)) step.gather_chunks(ready);
  }
  c.finish_reading();
  c.await_all_finished();
}

void run_all_reduce(Collective& c) {
  // Beyond these, a rank would read from more memory streams at once than hardware prefetchers
  // follow (about 16 a core on current processors).
  constexpr int kMostDirectRanks = 16;
  ExchangeWindow window(c, c.operation().in, 1);
  const AllReduceAlgorithm wanted = c.run().algorithm;
  const bool ring = wanted == AllReduceAlgorithm::ring ||
                    (wanted == AllReduceAlgorithm::automatic && c.size() > kMostDirectRanks);
  if (ring && window.all_direct() && c.operation().kind == OperationKind::all_reduce) {
    all_reduce_ring(c, window);
  } else {
    all_reduce_direct(c, window);
  }
}

}  // namespace ddpbench::comm
