// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of the CUDA backend. Forward and backward never allocate, wait or read back, so
// all can be recorded in a CUDA graph (after one call each, which loads the kernels).
#pragma once

#include <memory>

#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const BatchNorm2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const MaxPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ActivationDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AddDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ReorderDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AdaptiveAvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const UpsampleBilinearDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ConcatDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const DropoutDesc& desc);

// A convolution and a pool as one operation (OpBackend::fuse). Only the pool reads the convolution.
// Null where the two are better apart.
std::unique_ptr<Op> make_conv2d_max_pool2d(const ContextPtr& context, const Conv2dDesc& conv,
                                           const MaxPool2dDesc& pool);
// A pool that adds the bias of the convolution before it, one value a channel, and then rectifies:
// max(x) + b is max(x + b), since rounding keeps the order of sums. Only among values that the sum
// makes equal may another one win. REQUIRES: pool_adds_bias(), a channels-last input.
std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc, bool adds_bias);
bool pool_adds_bias(const Context& context, const MaxPool2dDesc& desc, std::int64_t channels);

// Waits for all work of the device, since the tensors may be results of other streams. Then blocks
// until the conversion is done.
void convert(Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

}  // namespace ddpbench::ops::cuda
