// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shape, element type and physical layout of a tensor. Value types, thread-safe to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops {

using Shape = std::vector<std::int64_t>;  // outermost first; images are [batch, channels, h, w]

std::int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "[64, 1, 28, 28]"

// Plain (row-major) or a backend's own layout. Two layouts are equal when shape, type and tag are.
struct TensorLayout {
  Shape shape;
  DataType type = DataType::fp32;
  std::size_t bytes = 0;               // padding included
  std::string tag = "plain";           // "plain", or the backend's name of it ("aBcd16b"); goes
                                       // into the plan's hash
  std::shared_ptr<const void> native;  // the backend's own descriptor; null when plain

  static TensorLayout plain(Shape shape, DataType type = DataType::fp32);
  bool is_plain() const { return tag == "plain"; }
  friend bool operator==(const TensorLayout& a, const TensorLayout& b) {
    return a.shape == b.shape && a.type == b.type && a.tag == b.tag;
  }
};

// The same order of elements in bf16 as `layout` has in fp32. REQUIRES: no native descriptor.
TensorLayout in_bf16(TensorLayout layout);
// The same order of elements in each sample, for a batch [samples, ...]. REQUIRES: no native
// descriptor.
TensorLayout for_samples(TensorLayout layout, std::int64_t samples);

}  // namespace ddpbench::ops
