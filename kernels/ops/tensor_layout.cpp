// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shape arithmetic and the plain layout.
#include "kernels/ops/tensor_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpbench::ops {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

TensorLayout TensorLayout::plain(Shape shape, DataType type) {
  TensorLayout layout;
  layout.bytes = static_cast<std::size_t>(element_count(shape)) * size_of(type);
  layout.shape = std::move(shape);
  layout.type = type;
  return layout;
}

TensorLayout in_bf16(TensorLayout layout) {
  ensure(layout.type == DataType::fp32 && !layout.native, "a layout {} cannot be told in bf16",
         layout.tag);
  layout.type = DataType::bf16;
  layout.bytes = layout.bytes / size_of(DataType::fp32) * size_of(DataType::bf16);
  return layout;
}

TensorLayout for_samples(TensorLayout layout, std::int64_t samples) {
  ensure(!layout.native && !layout.shape.empty() && layout.shape[0] > 0,
         "a layout {} of {} cannot be told of {} samples", layout.tag, to_string(layout.shape),
         samples);
  layout.bytes =
      layout.bytes / static_cast<std::size_t>(layout.shape[0]) * static_cast<std::size_t>(samples);
  layout.shape[0] = samples;
  return layout;
}

}  // namespace ddpbench::ops
