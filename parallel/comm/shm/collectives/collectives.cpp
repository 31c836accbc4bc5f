// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/collectives.h"

#include <cstring>

#include "base/error.h"

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

bool takes_from_root(const Operation& o) {
  return o.kind == OperationKind::broadcast || o.kind == OperationKind::scatter;
}

// The memory that this rank's peers read.
Elements posted_by(const Collective& c) {
  const Operation& o = c.operation();
  return takes_from_root(o) && c.rank() != o.root ? Elements{} : o.in;
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

// The other ranks' side: takes one of the root's `parts`.
void take(Collective& c, int parts, int part, const Elements& target) {
  const int root = c.operation().root;
  const std::size_t bytes = target.bytes();
  c.begin();
  c.enter();
  c.await_root();
  const std::byte* const source = c.exposed(root, static_cast<std::size_t>(parts) * bytes);
  c.copy(target.view().data, source + static_cast<std::size_t>(part) * bytes, bytes);
  c.count_taken(root, bytes);
  c.finish_reading();
}

// This rank exposes memory to all others, until part_ways().
void meet(Collective& c) {
  c.begin();
  c.enter(c.operation().in);
  c.await_all_entered();
}

void part_ways(Collective& c) {
  c.finish_reading();
  c.await_all_finished();
}

// Broadcast and scatter.
void run_from_root(Collective& c) {
  const Operation& o = c.operation();
  const bool scatters = o.kind == OperationKind::scatter;
  if (c.rank() != o.root) {
    return scatters ? take(c, c.size(), c.rank(), o.out) : take(c, 1, 0, o.in);
  }
  meet(c);
  part_ways(c);
  if (scatters) copy_some(o.out.view().data, o.in.place_of(c.rank(), o.out), o.out.bytes());
}

// Copies the inputs of the ranks from the `first` behind this one on into their places.
void copy_parts(Collective& c, int first) {
  const Operation& o = c.operation();
  for (int i = first; i < c.size(); ++i) {
    const int owner = (c.rank() + i) % c.size();
    std::byte* const target = o.out.place_of(owner, o.in);
    const std::byte* const source = i == 0 ? o.in.view().data : c.exposed(owner, o.in.bytes());
    if (source != target) c.copy(target, source, o.in.bytes());
    if (i > 0) c.count_taken(owner, o.in.bytes());
  }
}

void run_gather(Collective& c) {
  const Operation& o = c.operation();
  const bool is_root = c.rank() == o.root;
  if (is_root) copy_some(o.out.place_of(c.rank(), o.in), o.in.view().data, o.in.bytes());
  c.begin();
  c.enter(is_root ? Elements{} : o.in);
  is_root ? c.await_all_entered() : c.await_root();
  if (is_root) copy_parts(c, 1);
  c.finish_reading();
  if (!is_root) c.await_finished(o.root);
}

// Only rank r reads part r of the ranks' memory, so the result may go there.
void run_reduce_scatter(Collective& c) {
  const Operation& o = c.operation();
  meet(c);
  const std::span<const std::byte*> sources = c.run().sources;
  for (int i = 0; i < c.size(); ++i) {
    const int peer = (c.rank() + i) % c.size();
    sources[static_cast<std::size_t>(i)] =
        c.exposed(peer, o.in.bytes()) + static_cast<std::size_t>(c.rank()) * o.out.bytes();
    if (i > 0) c.count_taken(peer, o.out.bytes());
  }
  c.reduce_to(o.out.view().data, sources, o.out.bytes(), c.reduce_spec());
  part_ways(c);
}

void run_all_gather(Collective& c) {
  meet(c);
  copy_parts(c, 0);
  part_ways(c);
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
  c.enter();
  const bool gives_to_root = o.kind == OperationKind::reduce || o.kind == OperationKind::gather;
  if (takes_from_root(o)) {
    c.await_root();
  } else if (is_root || !gives_to_root) {
    c.await_all_entered();
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

void run_large(Collective& c) {
  const Operation& o = c.operation();
  switch (o.kind) {
    case OperationKind::reduce:
      return run_reduce(c);
    case OperationKind::reduce_scatter:
      return run_reduce_scatter(c);
    case OperationKind::all_gather:
      return run_all_gather(c);
    case OperationKind::broadcast:
    case OperationKind::scatter:
      return run_from_root(c);
    case OperationKind::gather:
      return run_gather(c);
    default:
      ensure(false, "no collective: {}", describe(o));
  }
}

}  // namespace ddpbench::comm
