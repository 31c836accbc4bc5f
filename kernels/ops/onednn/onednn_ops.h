// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations that oneDNN runs. The others of CPU devices are in kernels/ops/cpu.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/ops/onednn/launch.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc);
// How a convolution is computed: by a rule (conv2d.cpp), or, for tests, in one way.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd };
std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc,
                                ConvAlgorithm algorithm);

// Blocks until done. Either layout may be plain with a flattened shape of the other's.
void convert(const Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::onednn
