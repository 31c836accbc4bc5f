// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of the oneDNN backend. Those that oneDNN runs (convolution, matrix products,
// reorders) are in this folder, the own kernels in kernels/ops/cpu.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/ops/flat_ops.h"
#include "kernels/ops/onednn/context.h"
#include "kernels/ops/op.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::ops::onednn {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const BatchNorm2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const MaxPool2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ReluDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const AddDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const AvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const AdaptiveAvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const ConcatDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const DropoutDesc& desc);
// How a convolution is computed: by a rule (conv2d.cpp), or, for tests and measurements, in one
// way.
enum class ConvAlgorithm : std::uint8_t { automatic, direct, winograd };
std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc,
                                ConvAlgorithm algorithm);
// A pool that keeps the layout of its input, or writes a plain output (OpBackend::fuse).
std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc, bool to_plain);

// Blocks until done. Either layout may be plain with a flattened shape of the other's.
void convert(const Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::onednn
