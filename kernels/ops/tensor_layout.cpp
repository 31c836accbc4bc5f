// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/tensor_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::ops {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count))
      return std::numeric_limits<std::int64_t>::max();
  }
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

TensorLayout with_type(TensorLayout layout, DataType type) {
  ensure(!layout.native, "a layout {} cannot be told in another type", layout.tag);
  layout.bytes = layout.bytes / size_of(layout.type) * size_of(type);
  layout.type = type;
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

TensorLayout image_layout(const Shape& shape, std::int64_t block, DataType type) {
  ensure(shape.size() == 4, "{} is no image", to_string(shape));
  TensorLayout layout = TensorLayout::plain(shape, type);
  if (block == 8 || block == 16) {
    layout.tag = block == 8 ? "aBcd8b" : "aBcd16b";
    layout.bytes = layout.bytes / static_cast<std::size_t>(shape[1]) *
                   static_cast<std::size_t>(round_up(shape[1], block));
  } else if (block > 1 && shape[2] * shape[3] > 1) {
    layout.tag = "acdb";
  }
  return layout;
}

std::int64_t channel_block(const TensorLayout& layout) {
  if (layout.shape.size() != 4) return 0;
  if (layout.is_plain()) return 1;
  if (layout.tag == "acdb") return layout.shape[1];
  if (layout.tag == "aBcd8b") return 8;
  return layout.tag == "aBcd16b" ? 16 : 0;
}

}  // namespace ddpbench::ops
