// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/collectives.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"

namespace ddpbench::comm {

namespace {

// memcpy must not get null pointers, which empty operations may have.
void copy_some(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, bytes);
}

// `bytes` were read in the mailbox of each peer.
void count_mailboxes(Collective& c, std::size_t bytes) {
  for (int i = 1; i < c.size(); ++i) c.count_taken((c.rank() + i) % c.size(), bytes);
}

// The memory that this rank's peers read.
Elements posted_by(const Collective& c) {
  const Operation& o = c.operation();
  switch (o.kind) {
    case OperationKind::broadcast:
    case OperationKind::scatter:
      return c.rank() == o.root ? o.in : Elements{};
    default:
      return o.in;
  }
}

void reduce_mailboxes(Collective& c, std::size_t offset, const Elements& target) {
  const std::span<const std::byte*> sources = c.run().sources;
  for (int peer = 0; peer < c.size(); ++peer) {
    sources[static_cast<std::size_t>(peer)] = c.mailbox(peer) + offset;
  }
  reduce_sources(target.data, sources, target.count, c.reduce_spec());
  count_mailboxes(c, target.bytes());
}

void concatenate_mailboxes(Collective& c) {
  const std::size_t bytes = c.operation().in.bytes();
  for (int peer = 0; peer < c.size(); ++peer) {
    copy_some(c.operation().out.view().data + static_cast<std::size_t>(peer) * bytes,
              c.mailbox(peer), bytes);
  }
  count_mailboxes(c, bytes);
}

void take_part(Collective& c, std::size_t part, const Elements& target) {
  copy_some(target.view().data, c.mailbox(c.operation().root) + part * target.bytes(),
            target.bytes());
  if (c.rank() != c.operation().root) c.count_taken(c.operation().root, target.bytes());
}

}  // namespace

bool is_small(OperationKind kind, std::size_t part_bytes, int size) {
  const bool many_parts = kind == OperationKind::reduce_scatter || kind == OperationKind::scatter;
  return part_bytes <= kMailboxBytes / (many_parts ? static_cast<std::size_t>(size) : 1);
}

bool is_small(const Operation& operation, int size) {
  return is_small(operation.kind, operation.part().bytes(), size);
}

void run_small(Collective& c) {
  const Operation& o = c.operation();
  const bool is_root = c.rank() == o.root;
  const auto rank = static_cast<std::size_t>(c.rank());
  c.begin();
  const Elements posted = posted_by(c);
  copy_some(c.mailbox(c.rank()), posted.view().data, posted.bytes());
  c.enter({});
  switch (o.kind) {
    case OperationKind::reduce:
    case OperationKind::gather:
      if (!is_root) break;
      [[fallthrough]];
    default:
      c.await_all_entered();
      break;
    case OperationKind::broadcast:
    case OperationKind::scatter:
      c.await_root();
      break;
  }
  switch (o.kind) {
    case OperationKind::all_reduce:
      reduce_mailboxes(c, 0, o.in);
      break;
    case OperationKind::reduce:
      if (is_root) reduce_mailboxes(c, 0, o.in);
      break;
    case OperationKind::reduce_scatter:
      reduce_mailboxes(c, rank * o.out.bytes(), o.out);
      break;
    case OperationKind::all_gather:
      concatenate_mailboxes(c);
      break;
    case OperationKind::gather:
      if (is_root) concatenate_mailboxes(c);
      break;
    case OperationKind::broadcast:
      if (!is_root) take_part(c, 0, o.in);
      break;
    case OperationKind::scatter:
      take_part(c, rank, o.out);
      break;
    default:
      break;
  }
  c.finish_reading();
}

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

namespace {

constexpr std::size_t kHalfBytes = kStagingBytes / 2;

}  // namespace

ExchangeWindow::ExchangeWindow(Collective& c, const Elements& memory, std::size_t parts)
    : c_(c),
      own_(static_cast<std::byte*>(memory.data)),
      parts_(parts),
      part_bytes_(memory.bytes() / parts),
      // A piece is whole cache lines, which are whole elements.
      piece_bytes_(kHalfBytes / parts / kCacheLineBytes * kCacheLineBytes),
      rounds_(ceil_div(part_bytes_, piece_bytes_)) {
  c_.begin();
  const MemoryLocation location = c_.locate(memory);
  if (location.buffer == MemoryLocation::kStaged) copy_in(0);
  c_.enter(location);
  c_.await_all_entered();
  for (int peer = 0; peer < c_.size(); ++peer) all_direct_ = all_direct_ && !c_.staged(peer);
  if (all_direct_) {
    piece_bytes_ = part_bytes_;
    rounds_ = 1;
  }
}

std::size_t ExchangeWindow::bytes(std::uint64_t round) const {
  return std::min(piece_bytes_, part_bytes_ - offset(round));
}

std::byte* ExchangeWindow::at(int rank, std::size_t part, std::uint64_t round) const {
  if (c_.staged(rank)) return c_.staging(rank) + round % 2 * kHalfBytes + part * piece_bytes_;
  std::byte* const base = rank == c_.rank() ? own_ : c_.exposed(rank, parts_ * part_bytes_);
  return base + part * part_bytes_ + offset(round);
}

void ExchangeWindow::fill(std::uint64_t round) {
  // The half still holds round - 2, but no peer reads that: this rank has finished round - 1. In
  // that round it saw every peer's memory filled, and a peer fills after it has finished the round
  // before.
  if (c_.staged(c_.rank())) copy_in(round);
}

void ExchangeWindow::copy_in(std::uint64_t round) {
  std::byte* const half = c_.staging(c_.rank()) + round % 2 * kHalfBytes;
  for (std::size_t part = 0; part < parts_; ++part) {
    copy_bytes(half + part * piece_bytes_, own_ + part * part_bytes_ + offset(round), bytes(round));
  }
}

namespace {

// Runs `work` in each round, when all ranks' memory of that round is readable.
template <typename Work>
void in_rounds(Collective& c, ExchangeWindow& window, Work&& work) {
  for (std::uint64_t round = 0; round < window.rounds(); ++round) {
    if (round > 0) {
      window.fill(round);
      c.publish(1 + round);
      for (int i = 1; i < c.size(); ++i) c.await((c.rank() + i) % c.size(), 1 + round);
    }
    work(round);
  }
  c.finish_reading();
  c.await_all_finished();
}

}  // namespace

// Only rank r reads part r of the ranks' memory, so the result may go there.
void run_reduce_scatter(Collective& c) {
  const Operation& o = c.operation();
  const int n = c.size();
  const auto part = static_cast<std::size_t>(c.rank());
  ExchangeWindow window(c, o.in, static_cast<std::size_t>(n));
  in_rounds(c, window, [&](std::uint64_t round) {
    const std::span<const std::byte*> sources = c.run().sources;
    for (int i = 0; i < n; ++i) {
      sources[static_cast<std::size_t>(i)] = window.at((c.rank() + i) % n, part, round);
    }
    c.reduce_to(o.out.view().data + window.offset(round), sources, window.bytes(round),
                c.reduce_spec());
    for (int i = 1; i < n; ++i) {
      c.count_taken((c.rank() + i) % n, window.bytes(round), round > 0);
    }
  });
}

void run_all_gather(Collective& c) {
  const Operation& o = c.operation();
  const int n = c.size();
  ExchangeWindow window(c, o.in, 1);
  in_rounds(c, window, [&](std::uint64_t round) {
    for (int i = 0; i < n; ++i) {
      const int owner = (c.rank() + i) % n;
      std::byte* const target =
          o.out.view().data + static_cast<std::size_t>(owner) * o.in.bytes() + window.offset(round);
      const std::byte* const source =
          i == 0 ? o.in.view().data + window.offset(round) : window.at(owner, 0, round);
      if (source != target) c.copy(target, source, window.bytes(round));
      if (i > 0) c.count_taken(owner, window.bytes(round), round > 0);
    }
  });
}

}  // namespace ddpbench::comm
