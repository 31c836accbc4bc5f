// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layouts of the CUDA backend beside plain. They are channels-last in memory: "nhwc" for
// activations, "ohwi" for weights of convolutions and of linear layers that read channels-last
// maps. Both are a batch of transposed matrices [channels, pixels]. The shape says all about them,
// so they need no descriptor. Knows nothing of CUDA.
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
// The layout that needs no reorder: `given` when its memory is that of `wanted` (one channel, or
// one pixel), else `wanted`.
TensorLayout same_memory_or(const TensorLayout& given, const TensorLayout& wanted);

// The change from one layout to another: each of `batch` matrices is transposed. With one row or
// one column nothing moves.
struct LayoutChange {
  std::int64_t batch = 1, rows = 1, columns = 1;
};
// Either may be plain with another grouping of the same elements ([128, 3136] for [128, 64, 7, 7]).
// Throws ConfigError when there is no such change.
LayoutChange layout_change(const TensorLayout& from, const TensorLayout& to);

}  // namespace ddpbench::ops::cuda
