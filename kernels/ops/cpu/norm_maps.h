// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The maps that batch norm passes over.
#pragma once

#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cpu {

// Maps [batch, channels, pixels]. `inner` channels of a pixel lie together: 1 (plain), 8 and 16
// (blocked, where channels are padded with zeros), or all of them (channels last).
struct NormMaps {
  std::int64_t batch = 0, channels = 0, pixels = 0, inner = 1;
  DataType type = DataType::fp32;

  std::int64_t partial_count() const { return 2 * batch * channels; }
  double values() const { return static_cast<double>(batch * pixels); }  // of a channel
};

}  // namespace ddpbench::ops::cpu
