// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d on the own Winograd kernels.
#pragma once

#include <memory>

#include "kernels/ops/cpu/winograd.h"
#include "kernels/ops/onednn/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {

// Whether Winograd can compute it: only 3x3, stride 1, no groups, no dilation, padding at most 2.
bool has_winograd(const Conv2dDesc& desc);

// The shape of its maps, in blocks of so many channels. REQUIRES: has_winograd(desc).
cpu::WinogradShape winograd_shape(const Conv2dDesc& desc, std::int64_t block);

// Throws ConfigError for a shape without a result, DeviceError for a convolution that Winograd
// cannot compute and for a processor without AVX2.
std::unique_ptr<Op> make_winograd_conv2d(ContextPtr context, const Conv2dDesc& desc);

}  // namespace ddpbench::ops::onednn
