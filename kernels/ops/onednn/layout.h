// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorLayout to and from oneDNN's memory descriptors.
#pragma once

#include <dnnl.hpp>

#include "kernels/ops/tensor_layout.h"

namespace ddpbench::ops::onednn {

// The descriptor that a layout stands for. Throws InternalError for a layout of another backend.
dnnl::memory::desc to_desc(const TensorLayout& layout);

// The layout of a tensor that is `shape` for its users and `desc` in memory; the two may differ in
// how the inner dimensions are grouped (a linear layer's weight over blocked channels). The tag is
// oneDNN's notation ("aBcd16b"), made from the strides.
TensorLayout to_layout(const dnnl::memory::desc& desc, const Shape& shape);
TensorLayout to_layout(const dnnl::memory::desc& desc);

// Descriptor of a dense tensor with the outermost dimension replaced and all else, blocking and
// padding included, kept. REQUIRES: the outermost dimension is dense, outermost and not blocked.
dnnl::memory::desc with_outermost(const dnnl::memory::desc& desc, std::int64_t extent);

// Channels in groups of `block` inside each pixel: 1 is plain NCHW, 8 and 16 are the blocked
// layouts, the channel count itself is NHWC. 0 when `desc` is none of these.
std::int64_t channel_block(const dnnl::memory::desc& desc);
// REQUIRES: block is 1, 8, 16 or the number of channels.
dnnl::memory::desc image_desc(const Shape& shape, std::int64_t block);

}  // namespace ddpbench::ops::onednn
