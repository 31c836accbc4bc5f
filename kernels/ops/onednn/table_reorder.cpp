// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The own reorder, for layouts of two blocks or more with padding (weights of 17 channels in
// ABcd16b16a). oneDNN 3.7's loses values of those and leaves padding as it was where the processor
// tells no cache sizes, as in some virtual machines: jit_uni_reorder.cpp then splits the blocks as
// if every run were larger than the L1 cache. Such weights are small, so a plain loop is fast
// enough.
#include <functional>

#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/launch.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;

// The elements of dimension d that the blocks hold together.
std::int64_t block_of(const Blocking& blocking, std::size_t d) {
  std::int64_t block = 1;
  for (std::size_t k = 0; k < blocking.inner_blocks.size(); ++k)
    if (blocking.inner_dims[k] == std::int64_t(d)) block *= blocking.inner_blocks[k];
  return block;
}

// Returns the offset of each index of each dimension, padding included, in elements. An element
// lies at the sum over its dimensions.
std::vector<Shape> offsets_of(const Desc& desc) {
  const Blocking blocking = *blocking_of(desc);
  const Shape dims = dims_of(desc);
  const std::size_t blocks = blocking.inner_blocks.size();
  std::vector<Shape> offsets(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto inner_block = [&](std::size_t k) {  // 1 where it divides another dimension
      return blocking.inner_dims[k] == std::int64_t(d) ? blocking.inner_blocks[k] : 1;
    };
    const std::int64_t block = block_of(blocking, d);
    for (std::int64_t i = 0; i < round_up(dims[d], block); ++i) {
      std::int64_t offset = i / block * blocking.strides[d], rest = i, step = 1;
      for (std::size_t k = blocks; k-- > 0; step *= blocking.inner_blocks[k]) {
        offset += rest % inner_block(k) * step;
        rest /= inner_block(k);
      }
      offsets[d].push_back(offset);
    }
  }
  return offsets;
}

bool is_doubtful(const Desc& desc) {
  const std::optional<Blocking> blocking = blocking_of(desc);
  if (!blocking || blocking->inner_blocks.size() < 2) return false;
  const Shape dims = dims_of(desc);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d] % block_of(*blocking, d) != 0) return true;
  return false;
}

template <typename From, typename To>
struct TableReorder {
  Shape dims;
  std::vector<Shape> from_offsets, to_offsets;

  // The dimensions from d on; `from` is null in the padding, which becomes 0.
  void copy(std::size_t d, const From* from, To* to) const {
    for (std::size_t i = 0; i < to_offsets[d].size(); ++i) {
      const bool is_padding = from == nullptr || static_cast<std::int64_t>(i) >= dims[d];
      const From* const source = is_padding ? nullptr : from + from_offsets[d][i];
      To* const target = to + to_offsets[d][i];
      if (d + 1 < dims.size())
        copy(d + 1, source, target);
      else
        *target = source ? from_float<To>(*source) : To{};
    }
  }

  void operator()(const void* from, void* to) const {
    copy(0, static_cast<const From*>(from), static_cast<To*>(to));
  }
};

}  // namespace

std::function<void(const void*, void*)> make_table_reorder(const Desc& from, const Desc& to) {
  if ((!is_doubtful(from) && !is_doubtful(to)) || !blocking_of(from) || !blocking_of(to)) return {};
  const auto make = [&]<typename From, typename To>(From, To) {
    return TableReorder<From, To>{dims_of(from), offsets_of(from), offsets_of(to)};
  };
  using enum dnnl::memory::data_type;
  const auto types = std::pair(data_type_of(from), data_type_of(to));
  if (types == std::pair(f32, f32)) return make(float(), float());
  if (types == std::pair(f32, bf16)) return make(float(), BFloat16());
  if (types == std::pair(bf16, f32)) return make(BFloat16(), float());
  if (types == std::pair(bf16, bf16)) return make(BFloat16(), BFloat16());
  return {};
}

}  // namespace ddpbench::ops::onednn
