// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Between pixels with their channels together, [pixels][inner], and plain maps, [channels][pixels].
// Moves each float once; meant for blocks that are in the nearest cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ddpbench::ops::cpu {

// maps[c][p] = blocked[p][c] for the first `channels` of `inner` channels.
inline void transpose(std::int64_t pixels, std::int64_t inner, const float* blocked, float* maps,
                      std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) maps[c * pixels + p] = blocked[p * inner + c];
}

// blocked[p][c] = maps[c][p]; the channels past `channels` become 0.
inline void transpose_back(std::int64_t pixels, std::int64_t inner, const float* maps,
                           float* blocked, std::int64_t channels) {
  if (channels < inner) std::fill_n(blocked, pixels * inner, 0.0F);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) blocked[p * inner + c] = maps[c * pixels + p];
}

}  // namespace ddpbench::ops::cpu
