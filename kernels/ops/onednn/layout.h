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

// The layout of a tensor with the shape `shape` for its users and `desc` in memory. The two may
// group the inner dimensions differently (a linear layer's weight over blocked channels). The tag
// is oneDNN's notation ("aBcd16b"), made from the strides.
TensorLayout to_layout(const dnnl::memory::desc& desc, const Shape& shape);
TensorLayout to_layout(const dnnl::memory::desc& desc);

// The channels of a group inside each pixel: 1 is plain NCHW, 8 and 16 are the blocked layouts, the
// channel count is NHWC. 0 when `desc` is none of these.
std::int64_t channel_block(const dnnl::memory::desc& desc);
// REQUIRES: block is 1, 8, 16 or the number of channels.
dnnl::memory::desc image_desc(const Shape& shape, std::int64_t block,
                              DataType type = DataType::fp32);
// The same order of elements in another type. Plain where `layout` is none of image_desc()'s.
TensorLayout with_type(const TensorLayout& layout, DataType type);
// The same order of elements in each sample, for another number of samples. Throws InternalError
// where `layout` is neither plain, nor one of image_desc()'s, nor in blocks of 4 channels.
TensorLayout for_samples(const TensorLayout& layout, std::int64_t samples);

dnnl::memory::data_type to_dnnl(DataType type);

}  // namespace ddpbench::ops::onednn
