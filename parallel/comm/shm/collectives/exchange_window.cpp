// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/exchange_window.h"

#include <algorithm>

#include "base/math.h"

namespace ddpbench::comm {

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

}  // namespace ddpbench::comm
