// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the all-reduce algorithms share: how a buffer is cut into chunks, one a rank, and those into
// segments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parallel/comm/shm/collectives/exchange_window.h"

namespace ddpbench::comm {

// Segments are published one by one, so that a peer works on a segment while it is still in the
// cache of the core that made it.
inline constexpr std::size_t kSegmentBytes = 64 << 10;

struct Segment {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

class Chunks {
 public:
  // Of `bytes` for `ranks`; boundaries are multiples of a cache line, so that no line has two
  // writers, and the last chunks may be shorter or empty.
  Chunks(std::size_t bytes, int ranks)
      : bytes_(bytes),
        chunk_bytes_(round_up((bytes + static_cast<std::size_t>(ranks) - 1) /
                              static_cast<std::size_t>(ranks))) {}

  // A chunk, the same for all.
  std::size_t segments() const { return (chunk_bytes_ + kSegmentBytes - 1) / kSegmentBytes; }
  Segment segment(int chunk, std::size_t number) const {
    const std::size_t begin = std::min(bytes_, static_cast<std::size_t>(chunk) * chunk_bytes_);
    const std::size_t end = std::min(bytes_, begin + chunk_bytes_);
    const std::size_t from = std::min(end, begin + number * kSegmentBytes);
    return {from, std::min(end, from + kSegmentBytes) - from};
  }

 private:
  static std::size_t round_up(std::size_t value) {
    return (value + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  }

  std::size_t bytes_;
  std::size_t chunk_bytes_;
};

void all_reduce_ring(Collective& c, const ExchangeWindow& window);
void all_reduce_direct(Collective& c, ExchangeWindow& window);

}  // namespace ddpbench::comm
