// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/layout.h"

#include "base/error.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr const char* kActivation = "nhwc";
constexpr const char* kFilter = "ohwi";

bool is_channels_last(const TensorLayout& layout) {
  return layout.tag == kActivation || layout.tag == kFilter;
}

std::int64_t pixels_of(const Shape& shape) { return shape[2] * shape[3]; }

TensorLayout tagged(const Shape& shape, DataType type, const char* tag) {
  ensure(shape.size() == 4, "{} of {}", tag, to_string(shape));
  TensorLayout layout = TensorLayout::plain(shape, type);
  layout.tag = tag;
  return layout;
}

[[noreturn]] void refuse(const TensorLayout& from, const TensorLayout& to) {
  throw ConfigError(fmt::format("no conversion from {} {} {} to {} {} {}", to_string(from.shape),
                                to_string(from.type), from.tag, to_string(to.shape),
                                to_string(to.type), to.tag));
}

bool is_known(const TensorLayout& layout) {
  return (layout.is_plain() || is_channels_last(layout)) &&
         (layout.type == DataType::fp32 || size_of(layout.type) == 2);
}

}  // namespace

TensorLayout nhwc_layout(const Shape& shape, DataType type) {
  return tagged(shape, type, kActivation);
}

TensorLayout ohwi_layout(const Shape& shape) { return tagged(shape, DataType::fp32, kFilter); }

bool is_nhwc(const TensorLayout& layout) { return layout.tag == kActivation; }

TensorLayout same_memory_or(const TensorLayout& given, const TensorLayout& wanted) {
  if (given.shape != wanted.shape || given.type != wanted.type) return wanted;
  if (!is_known(given) || !is_known(wanted)) return wanted;
  const LayoutChange change = layout_change(given, wanted);
  return change.rows == 1 || change.columns == 1 ? given : wanted;
}

LayoutChange layout_change(const TensorLayout& from, const TensorLayout& to) {
  const std::int64_t count = element_count(from.shape);
  if (!is_known(from) || !is_known(to) || count != element_count(to.shape)) refuse(from, to);
  if (is_channels_last(from) == is_channels_last(to)) {
    if (is_channels_last(from) && from.shape != to.shape) refuse(from, to);
    return {1, 1, count};
  }
  const Shape& shape = is_channels_last(from) ? from.shape : to.shape;
  if (is_channels_last(to)) return {shape[0], shape[1], pixels_of(shape)};
  return {shape[0], pixels_of(shape), shape[1]};
}

}  // namespace ddpbench::ops::cuda
