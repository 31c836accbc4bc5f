// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Transposes between pixels with their channels together, [pixels][inner], and plain maps,
// [channels][pixels]. It moves each element once and is meant for blocks in the L1 cache.
#pragma once

#include <cstdint>

#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::cpu {

// The elements are float or BFloat16.
//
// maps[c][p] = blocked[p][c] for the first `channels` of `inner` channels.
template <typename T>
void blocked_to_maps(std::int64_t pixels, std::int64_t inner, const T* blocked, T* maps,
                     std::int64_t channels);

// blocked[p][c] = maps[c][p]; the channels past `channels` become 0.
template <typename T>
void maps_to_blocked(std::int64_t pixels, std::int64_t inner, const T* maps, T* blocked,
                     std::int64_t channels);

}  // namespace ddpbench::ops::cpu
