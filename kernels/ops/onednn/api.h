// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorLayout to and from oneDNN's memory descriptors, and what differs between the interfaces of
// oneDNN 2 (from 2.6) and oneDNN 3 ("Transition from v2.x to v3.x" of its guide).
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "kernels/ops/tensor_layout.h"

#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error "oneDNN 2.6 or newer is needed"
#endif

namespace ddpbench::ops::onednn {

// How a descriptor orders its elements: strides of the dimensions in elements, with the innermost
// blocks left out, then the blocks from the outermost, each with the dimension that it divides.
struct Blocking {
  Shape strides;
  Shape inner_blocks, inner_dims;
};

#if DNNL_VERSION_MAJOR >= 3

inline Shape dims_of(const dnnl::memory::desc& desc) { return desc.get_dims(); }

inline dnnl::memory::data_type data_type_of(const dnnl::memory::desc& desc) {
  return desc.get_data_type();
}

// Nothing for a layout that only the library knows.
inline std::optional<Blocking> blocking_of(const dnnl::memory::desc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return std::nullopt;
  return Blocking{desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()};
}

inline void append_relu(dnnl::post_ops& ops) {
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

#else

inline Shape dims_of(const dnnl::memory::desc& desc) { return desc.dims(); }

inline dnnl::memory::data_type data_type_of(const dnnl::memory::desc& desc) {
  return desc.data_type();
}

inline std::optional<Blocking> blocking_of(const dnnl::memory::desc& desc) {
  if (desc.data.format_kind != dnnl_blocked) return std::nullopt;
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  return Blocking{
      {blocking.strides, blocking.strides + desc.data.ndims},
      {blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks},
      {blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks},
  };
}

inline void append_relu(dnnl::post_ops& ops) {
  ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

#endif

// The plan of a primitive; `parameters` are those of Primitive::primitive_desc's constructor in
// oneDNN 3 between the engine and the attributes, of Primitive::desc's in oneDNN 2.
template <typename Primitive, typename... Parameters>
typename Primitive::primitive_desc plan_primitive(const dnnl::engine& engine,
                                                  const dnnl::primitive_attr& attr,
                                                  const Parameters&... parameters) {
  if constexpr (DNNL_VERSION_MAJOR >= 3) {
    return {engine, parameters..., attr};
  } else {
    return {typename Primitive::desc(parameters...), attr, engine};
  }
}

// The same for a gradient; `forward` is the plan of the operation that it belongs to.
template <typename Primitive, typename Forward, typename... Parameters>
typename Primitive::primitive_desc plan_gradient_of(const Forward& forward,
                                                    const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attr,
                                                    const Parameters&... parameters) {
  if constexpr (DNNL_VERSION_MAJOR >= 3) {
    return {engine, parameters..., forward, attr};
  } else {
    return {typename Primitive::desc(parameters...), attr, engine, forward};
  }
}

// The descriptor that a layout stands for. Throws InternalError for a layout of another backend.
dnnl::memory::desc to_desc(const TensorLayout& layout);

// The layout of a tensor with the shape `shape` for its users and `desc` in memory. The two may
// group the inner dimensions differently (a linear layer's weight over blocked channels). The tag
// is oneDNN's notation ("aBcd16b"), made from the strides.
TensorLayout to_layout(const dnnl::memory::desc& desc, const Shape& shape);
inline TensorLayout to_layout(const dnnl::memory::desc& desc) {
  return to_layout(desc, dims_of(desc));
}

dnnl::memory::data_type to_dnnl(DataType type);

}  // namespace ddpbench::ops::onednn
