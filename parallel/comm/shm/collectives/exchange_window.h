// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where each rank's exposed memory is, round by round.
//
// When all ranks' memory can be mapped there is one round over all of it. Otherwise there are as
// many rounds as the staging area needs. In each, a rank without registered memory copies a piece
// in, and all ranks work on pieces. The two halves of the staging area alternate, so that a rank
// fills one while slower peers still read the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

class ExchangeWindow {
 public:
  // Exposes `memory`, which is `parts` equal parts one behind the other. Enters the collective with
  // the first round ready, and waits for all ranks.
  ExchangeWindow(Collective& c, const Elements& memory, std::size_t parts);

  std::uint64_t rounds() const noexcept { return rounds_; }
  // Place and size of a round's piece, within each part.
  std::size_t offset(std::uint64_t round) const { return round * piece_bytes_; }
  std::size_t bytes(std::uint64_t round) const;
  // The size of the largest piece.
  std::size_t piece_bytes() const noexcept { return piece_bytes_; }
  // Address here of a rank's piece of a part. REQUIRES: that rank has published the round.
  std::byte* at(int rank, std::size_t part, std::uint64_t round) const;

  // Copies this rank's pieces of a round in, if it is staged. REQUIRES: the round before is done.
  void fill(std::uint64_t round);
  bool all_direct() const noexcept { return all_direct_; }

 private:
  void copy_in(std::uint64_t round);

  Collective& c_;
  std::byte* const own_;
  const std::size_t parts_;
  const std::size_t part_bytes_;
  std::size_t piece_bytes_;
  std::uint64_t rounds_;
  bool all_direct_ = true;
};

}  // namespace ddpbench::comm
