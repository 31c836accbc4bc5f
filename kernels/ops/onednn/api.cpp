// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/onednn/api.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

constexpr std::pair<DataType, Type> kTypes[] = {{DataType::fp32, Type::f32},
                                                {DataType::bf16, Type::bf16},
                                                {DataType::fp16, Type::f16},
                                                {DataType::int32, Type::s32},
                                                {DataType::uint8, Type::u8}};

DataType from_dnnl(Type type) {
  const auto found = std::ranges::find(kTypes, type, &std::pair<DataType, Type>::second);
  ensure(found != std::end(kTypes), "oneDNN chose data type {}, which is not supported here",
         static_cast<int>(type));
  return found->first;
}

Desc plain_desc(const Shape& shape, Type type) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return Desc(shape, type, strides);
}

// The descriptor of a layout that its tag alone tells, so that code without oneDNN can make and
// read it: images (ops::image_layout), also in blocks of 4 channels, which the library chooses for
// convolutions of 4, 12, ... channels a group; and the weights of the own Winograd.
std::optional<Desc> tagged_desc(const TensorLayout& layout) {
  constexpr std::pair<std::string_view, Tag> kKnown[] = {
      {"aBcd4b", Tag::aBcd4b}, {"aBcd8b", Tag::aBcd8b},     {"aBcd16b", Tag::aBcd16b},
      {"acdb", Tag::acdb},     {"ABcd8b8a", Tag::ABcd8b8a}, {"ABcd16b16a", Tag::ABcd16b16a}};
  for (const auto& [name, tag] : kKnown)
    if (layout.tag == name) return Desc(layout.shape, to_dnnl(layout.type), tag);
  return std::nullopt;
}

// oneDNN's notation: the dimensions as letters from the outermost to the innermost, blocked ones as
// capitals, then the inner blocks.
std::string tag_of(const Blocking& blocking) {
  std::vector<std::size_t> order(blocking.strides.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return blocking.strides[a] > blocking.strides[b];
  });
  std::string blocks, tag;
  for (std::size_t i = 0; i < blocking.inner_blocks.size(); ++i)
    blocks += fmt::format("{}{}", blocking.inner_blocks[i],
                          static_cast<char>('a' + blocking.inner_dims[i]));
  for (const std::size_t dim : order) {
    const auto letter = static_cast<char>('a' + dim);
    const bool blocked = blocks.find(letter) != std::string::npos;
    tag += blocked ? static_cast<char>('A' + dim) : letter;
  }
  return tag + blocks;
}

}  // namespace

Type to_dnnl(DataType type) {
  const auto found = std::ranges::find(kTypes, type, &std::pair<DataType, Type>::first);
  if (found != std::end(kTypes)) return found->second;
  throw ConfigError(
      fmt::format("the oneDNN backend has no data type {}; use fp32 or bf16", to_string(type)));
}

Desc to_desc(const TensorLayout& layout) {
  if (layout.native) return *static_cast<const Desc*>(layout.native.get());
  if (const auto desc = tagged_desc(layout)) return *desc;
  ensure(layout.is_plain(), "layout {} of {} was not made by the oneDNN backend", layout.tag,
         to_string(layout.shape));
  return plain_desc(layout.shape, to_dnnl(layout.type));
}

TensorLayout to_layout(const Desc& desc, const Shape& shape) {
  const std::optional<Blocking> blocking = blocking_of(desc);
  ensure(blocking.has_value(), "oneDNN chose an opaque layout for {}", to_string(shape));
  const DataType type = from_dnnl(data_type_of(desc));
  TensorLayout layout = TensorLayout::plain(shape, type);
  // oneDNN's comparison ignores the strides of dimensions of extent 1.
  if (desc == plain_desc(dims_of(desc), data_type_of(desc))) return layout;
  layout.bytes = desc.get_size();
  layout.tag = tag_of(*blocking);
  if (dims_of(desc) != shape) layout.tag += " of " + to_string(dims_of(desc));
  if (tagged_desc(layout) != desc) layout.native = std::make_shared<const Desc>(desc);
  return layout;
}

}  // namespace ddpbench::ops::onednn
