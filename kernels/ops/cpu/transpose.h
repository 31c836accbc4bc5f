// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Transposes between pixels with their channels together, [pixels][inner], and plain maps,
// [channels][pixels]. It moves each float once and is meant for blocks in the L1 cache.
#pragma once

#include <cstdint>

namespace ddpbench::ops::cpu {

// maps[c][p] = blocked[p][c] for the first `channels` of `inner` channels.
void blocked_to_maps(std::int64_t pixels, std::int64_t inner, const float* blocked, float* maps,
                     std::int64_t channels);

// blocked[p][c] = maps[c][p]; the channels past `channels` become 0.
void maps_to_blocked(std::int64_t pixels, std::int64_t inner, const float* maps, float* blocked,
                     std::int64_t channels);

}  // namespace ddpbench::ops::cpu
