// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend that takes at once the batch of several devices and gives each sample the bits that its
// own device gives it.
//
// A library chooses by the batch how it computes: Winograd or not, the order of a sum. So the maps
// of two devices' batch differ by roundings from those of either, and behind a ReLU such a rounding
// decides now and then whether a value is cut, which changes a whole term of a gradient. Here
// convolutions and linear layers are therefore planned for the batch of one device, and run for
// each part of a larger batch in turn; their parameters' gradients add up in the order of the
// parts, as those of devices do. Every other operation computes a sample alone, or sums in double
// over samples (batch norm), and takes the whole batch.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// `samples`: the batch of one device. Batches that are no multiple of it, or not larger, are
// planned as by `backend`; so are operations whose slices would not begin at multiples of
// `alignment` bytes. REQUIRES: samples > 0, alignment > 0.
std::unique_ptr<OpBackend> make_sliced_backend(std::unique_ptr<OpBackend> backend,
                                               std::int64_t samples, std::size_t alignment = 1);

}  // namespace ddpbench::ops
