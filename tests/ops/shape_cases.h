// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The awkward shapes that every backend's operations are tested on.
#pragma once

#include <vector>

#include "kernels/ops/op.h"

namespace ddpbench::ops::testing {

// A square window on a plain input.
Conv2dDesc conv(Shape input, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
                std::int64_t pad = 0);

// Changed copies of any description.
template <typename Desc>
Desc with_relu(Desc desc) {
  desc.fuse_relu = true;
  return desc;
}
template <typename Desc>
Desc without_bias(Desc desc) {
  desc.bias = false;
  return desc;
}
template <typename Desc>
Desc first_layer(Desc desc) {
  desc.needs_grad_input = false;
  return desc;
}

struct ConvCase {
  const char* name;
  Conv2dDesc desc;
};
std::vector<ConvCase> conv_cases();
// Few input channels, for which some backends have own kernels.
std::vector<ConvCase> few_channel_conv_cases();

struct PoolCase {
  const char* name;
  Shape input;
  std::int64_t kernel, stride, pad;
  bool ceil_mode = false;
  std::int64_t more = 0;  // padding at the right and below

  Window2d window() const {
    return {kernel, kernel, stride, stride, pad, pad, more, more, ceil_mode};
  }
  MaxPool2dDesc desc(const TensorLayout& layout, bool relu) const {
    return {.input = layout, .window = window(), .fuse_relu = relu};
  }
};
std::vector<PoolCase> pool_cases();

struct AverageCase {
  const char* name;
  Shape input;
  std::int64_t kernel, stride, pad;
  bool count_include_pad = true;
  bool ceil_mode = false;
  std::int64_t more = 0;

  AvgPool2dDesc desc(const TensorLayout& layout) const;
};
std::vector<AverageCase> average_cases();

struct AdaptiveCase {
  const char* name;
  Shape input;
  std::int64_t out_h, out_w;

  AdaptiveAvgPool2dDesc desc(const TensorLayout& layout) const { return {layout, out_h, out_w}; }
};
std::vector<AdaptiveCase> adaptive_cases();

struct UpsampleCase {
  const char* name;
  Shape input;
  std::int64_t out_h, out_w;

  UpsampleBilinearDesc desc(const TensorLayout& layout) const { return {layout, out_h, out_w}; }
};
std::vector<UpsampleCase> upsample_cases();

struct ConcatCase {
  const char* name;
  std::vector<Shape> inputs;
};
std::vector<ConcatCase> concat_cases();

struct NormCase {
  const char* name;
  BatchNorm2dDesc desc;
};
// With all that may be fused, and without parameters.
std::vector<NormCase> norm_cases();

struct LinearCase {
  const char* name;
  LinearDesc desc;
};
LinearDesc linear(TensorLayout input, std::int64_t out);
LinearDesc linear(Shape input, std::int64_t out);
std::vector<LinearCase> linear_cases();

}  // namespace ddpbench::ops::testing
