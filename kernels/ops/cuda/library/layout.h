// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layouts of the CUDA backend beside plain: channels last in memory, "nhwc" for activations and
// "ohwi" for weights: of convolutions, and of linear layers that read channels-last maps. Both are
// a batch of matrices [channels, pixels], transposed. The shape says all about them, so they need
// no descriptor. Knows nothing of CUDA.
#pragma once

#include <cstdint>

#include "kernels/ops/tensor_layout.h"

namespace ddpbench::ops::cuda {

// [batch, channels, height, width] kept as [batch, height, width, channels].
TensorLayout nhwc_layout(const Shape& shape, DataType type);
// [out, in, kh, kw] kept as [out, kh, kw, in], fp32. Of a linear layer `in`, `kh` and `kw` are the
// channels, height and width of its input.
TensorLayout ohwi_layout(const Shape& shape);
bool is_nhwc(const TensorLayout& layout);
// The layout that costs nothing: `given` when its memory is that of `wanted` (one channel, or one
// pixel), else `wanted`.
TensorLayout same_memory_or(const TensorLayout& given, const TensorLayout& wanted);

// How to get from one layout to another: transpose each of `batch` matrices. With one row or one
// column there is nothing to transpose.
struct LayoutChange {
  std::int64_t batch = 1, rows = 1, columns = 1;
};
// Either may be plain with another grouping of the same elements ([128, 3136] for [128, 64, 7, 7]).
// Throws ConfigError when there is no such change.
LayoutChange layout_change(const TensorLayout& from, const TensorLayout& to);

}  // namespace ddpbench::ops::cuda
