// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How the buffer of an all-reduce is cut into chunks, one a rank, and those into segments.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/math.h"
#include "parallel/comm/shm/peers/control_block.h"

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
  // `bytes` cut for `ranks`; boundaries are multiples of a cache line, so that no line has two
  // writers, and the last chunks may be shorter or empty.
  Chunks(std::size_t bytes, int ranks)
      : bytes_(bytes),
        chunk_bytes_(round_up(ceil_div(bytes, static_cast<std::size_t>(ranks)), kCacheLineBytes)) {}

  std::size_t bytes(int chunk) const { return end(chunk) - begin(chunk); }
  // The number of segments in a chunk; all chunks have the same.
  std::size_t segments() const { return ceil_div(chunk_bytes_, kSegmentBytes); }
  Segment segment(int chunk, std::size_t number) const {
    const std::size_t from = std::min(end(chunk), begin(chunk) + number * kSegmentBytes);
    return {from, std::min(end(chunk), from + kSegmentBytes) - from};
  }

 private:
  std::size_t begin(int chunk) const {
    return std::min(bytes_, static_cast<std::size_t>(chunk) * chunk_bytes_);
  }
  std::size_t end(int chunk) const { return std::min(bytes_, begin(chunk) + chunk_bytes_); }

  std::size_t bytes_;
  std::size_t chunk_bytes_;
};

}  // namespace ddpbench::comm
