// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a decoded data set lies in memory: train images, train labels, test images, test labels, each
// from a 64-byte boundary of the block on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "datasets/dataset.h"

namespace ddpbench::data {

// The four parts of `out`, which has info.decoded_bytes(), for a DatasetSource to fill. The gaps
// between them are set to zero, so that equal data sets are equal bytes.
std::array<std::span<std::uint8_t>, 4> decoded_parts(const DatasetInfo& info,
                                                     std::span<std::byte> out);

}  // namespace ddpbench::data
