// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "parallel/comm/shm/collectives/collectives.h"

namespace ddpbench::comm {

namespace {

constexpr std::size_t kLanes = 4;

void copy_unless_same(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (target != source) copy_bytes(target, source, bytes);
}

// How `parts` parts of `part_bytes` travel through one rank's staging area.
struct Lanes {
  std::size_t parts;
  std::size_t part_bytes;

  std::size_t piece_bytes() const {
    return kStagingBytes / kLanes / parts / kCacheLineBytes * kCacheLineBytes;
  }
  std::uint64_t rounds() const { return (part_bytes + piece_bytes() - 1) / piece_bytes(); }
  std::size_t offset(std::uint64_t round) const { return round * piece_bytes(); }
  std::size_t bytes(std::uint64_t round) const {
    return std::min(piece_bytes(), part_bytes - offset(round));
  }
  std::byte* at(std::byte* staging, std::uint64_t round, std::size_t part) const {
    return staging + (round % kLanes * parts + part) * piece_bytes();
  }
};

// The step at which round r of a staged transfer is filled; step 1 is entering.
std::uint64_t filled(std::uint64_t round) { return 2 + round; }

void fill(Collective& c, const Lanes& lanes, std::uint64_t round) {
  for (std::size_t part = 0; part < lanes.parts; ++part) {
    const std::byte* const source =
        c.operation().in.view().data + part * lanes.part_bytes + lanes.offset(round);
    copy_bytes(lanes.at(c.staging(c.rank()), round, part), source, lanes.bytes(round));
  }
  c.publish(filled(round));
}

// The root's side of broadcast (one part for all) and scatter (a part a rank).
void hand_out(Collective& c, const Lanes& lanes) {
  c.begin();
  c.enter(c.locate(c.operation().in));
  const std::uint64_t rounds = c.staged(c.rank()) ? lanes.rounds() : 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (int i = 1; i < c.size() && round >= kLanes; ++i) {
      c.await_consumed((c.rank() + i) % c.size(), round - kLanes + 1);
    }
    fill(c, lanes, round);
  }
  c.await_all_entered();
  c.finish_reading();
  c.await_all_finished();
}

// The other ranks' side: takes `part` into `target`.
void take(Collective& c, const Lanes& lanes, std::size_t part, std::byte* target) {
  const int root = c.operation().root;
  c.begin();
  c.enter({});
  c.await_root();
  if (!c.staged(root)) {
    const std::byte* const source = c.exposed(root, lanes.parts * lanes.part_bytes);
    c.copy(target, source + part * lanes.part_bytes, lanes.part_bytes);
  } else {
    for (std::uint64_t round = 0; round < lanes.rounds(); ++round) {
      c.await(root, filled(round));
      copy_bytes(target + lanes.offset(round), lanes.at(c.staging(root), round, part),
                 lanes.bytes(round));
      c.consume(round + 1);
    }
  }
  c.count_taken(root, lanes.part_bytes);
  c.finish_reading();
}

// Sends one part of a gather to the root.
void hand_in(Collective& c, const Lanes& lanes) {
  const int root = c.operation().root;
  c.begin();
  c.enter(c.locate(c.operation().in));
  const std::uint64_t rounds = c.staged(c.rank()) ? lanes.rounds() : 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round >= kLanes) c.await_consumed(root, round - kLanes + 1);
    fill(c, lanes, round);
  }
  c.await_root();
  c.finish_reading();
  c.await_finished(root);
}

// The root's side of gather. It goes round by round, so that one counter tells all senders of
// staged parts how far it is.
void collect(Collective& c, const Lanes& lanes) {
  c.begin();
  c.enter({});
  c.await_all_entered();
  for (std::uint64_t round = 0; round < lanes.rounds(); ++round) {
    for (int i = 1; i < c.size(); ++i) {
      const int peer = (c.rank() + i) % c.size();
      if (c.staged(peer)) c.await(peer, filled(round));
      const std::byte* const source = c.staged(peer)
                                          ? lanes.at(c.staging(peer), round, 0)
                                          : c.exposed(peer, lanes.part_bytes) + lanes.offset(round);
      std::byte* const target = c.operation().out.view().data +
                                static_cast<std::size_t>(peer) * lanes.part_bytes +
                                lanes.offset(round);
      c.copy(target, source, lanes.bytes(round));
      c.count_taken(peer, lanes.bytes(round), round > 0);
    }
    c.consume(round + 1);
  }
  c.finish_reading();
}

}  // namespace

void run_broadcast(Collective& c) {
  const Operation& o = c.operation();
  const Lanes lanes{1, o.in.bytes()};
  if (c.rank() == o.root) {
    hand_out(c, lanes);
  } else {
    take(c, lanes, 0, o.in.view().data);
  }
}

void run_scatter(Collective& c) {
  const Operation& o = c.operation();
  const auto rank = static_cast<std::size_t>(c.rank());
  const Lanes lanes{static_cast<std::size_t>(c.size()), o.out.bytes()};
  if (c.rank() != o.root) return take(c, lanes, rank, o.out.view().data);
  hand_out(c, lanes);
  copy_unless_same(o.out.view().data, o.in.view().data + rank * lanes.part_bytes, lanes.part_bytes);
}

void run_gather(Collective& c) {
  const Operation& o = c.operation();
  const Lanes lanes{1, o.in.bytes()};
  if (c.rank() != o.root) return hand_in(c, lanes);
  copy_unless_same(o.out.view().data + static_cast<std::size_t>(c.rank()) * lanes.part_bytes,
                   o.in.view().data, lanes.part_bytes);
  collect(c, lanes);
}

}  // namespace ddpbench::comm
