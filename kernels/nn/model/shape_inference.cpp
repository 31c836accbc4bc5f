// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shapes follow PyTorch: out = floor((in + 2 * padding - kernel) / stride) + 1, and a linear layer
// flattens its input in row-major order.
#include "kernels/nn/model/shape_inference.h"

#include <limits>

#include "base/error.h"

namespace ddpbench::nn {
namespace {

// What one entry needs to complain precisely.
struct Site {
  const LayerEntry& entry;
  const std::string& origin;

  [[noreturn]] void fail(const std::string& message) const {
    fail_at(origin, entry.pointer, message);
  }
  [[noreturn]] void fail_at_key(std::string_view key, const std::string& message) const {
    fail_at(origin, fmt::format("{}/{}", entry.pointer, key), message);
  }
};

void expect_image(const Site& site, const ops::Shape& input) {
  if (input.size() == 3) return;
  site.fail(fmt::format(
      "the layer \"{}\" of type {} needs an input [channels, h, w], its input \"{}\" is {}",
      site.entry.spec.name, to_string(site.entry.spec.type), site.entry.input_names[0],
      ops::to_string(input)));
}

void expect_declared(const Site& site, std::string_view key, std::int64_t met,
                     const ops::Shape& input) {
  if (!site.entry.declared_in || *site.entry.declared_in == met) return;
  site.fail_at_key(
      key, fmt::format("{} is {}, but the input \"{}\" of the layer \"{}\" is {}, which makes {}",
                       key, *site.entry.declared_in, site.entry.input_names[0],
                       site.entry.spec.name, ops::to_string(input), met));
}

std::int64_t window_count(std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                          std::int64_t padding) {
  const std::int64_t room = extent + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

ops::Shape windowed(const Site& site, const ops::Shape& input, std::int64_t channels) {
  const LayerSpec& s = site.entry.spec;
  const std::int64_t h = window_count(input[1], s.kernel_h, s.stride_h, s.pad_h);
  const std::int64_t w = window_count(input[2], s.kernel_w, s.stride_w, s.pad_w);
  if (h == 0 || w == 0) {
    site.fail(fmt::format(
        "the kernel [{}, {}] of the layer \"{}\" does not fit its input \"{}\" of shape {} with "
        "padding [{}, {}]; make the kernel smaller or the padding larger",
        s.kernel_h, s.kernel_w, s.name, site.entry.input_names[0], ops::to_string(input), s.pad_h,
        s.pad_w));
  }
  return {channels, h, w};
}

// Elements of a shape, in a type that cannot overflow for four factors of at most 2^31.
__extension__ using Wide = __int128;

void expect_addressable(const Site& site, const ops::Shape& shape, std::string_view what) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  Wide count = 1;
  for (const std::int64_t extent : shape) {
    count *= extent;
    if (count <= kLargest) continue;
    site.fail(fmt::format("the {} of the layer \"{}\" would be {}, more than {} elements", what,
                          site.entry.spec.name, ops::to_string(shape), kLargest));
  }
}

ops::Shape weight_shape(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type == LayerType::conv2d) return {layer.out, input[0], layer.kernel_h, layer.kernel_w};
  return {layer.out, ops::element_count(input)};
}

ops::Shape infer_add(const Site& site, std::span<const ops::Shape> inputs) {
  if (inputs[0] == inputs[1]) return inputs[0];
  site.fail(fmt::format(
      "the layer \"{}\" adds \"{}\" of shape {} and \"{}\" of shape {}; they must be equal",
      site.entry.spec.name, site.entry.input_names[0], ops::to_string(inputs[0]),
      site.entry.input_names[1], ops::to_string(inputs[1])));
}

ops::Shape infer_conv2d(const Site& site, const ops::Shape& input) {
  expect_image(site, input);
  expect_declared(site, "in_channels", input[0], input);
  expect_addressable(site, weight_shape(site.entry.spec, input), "weight");
  return windowed(site, input, site.entry.spec.out);
}

ops::Shape infer_linear(const Site& site, const ops::Shape& input) {
  expect_declared(site, "in_features", ops::element_count(input), input);
  expect_addressable(site, weight_shape(site.entry.spec, input), "weight");
  return {site.entry.spec.out};
}

ops::Shape infer_max_pool2d(const Site& site, const ops::Shape& input) {
  expect_image(site, input);
  return windowed(site, input, input[0]);
}

}  // namespace

ops::Shape infer_shape(const LayerEntry& entry, std::span<const ops::Shape> inputs,
                       const std::string& origin) {
  const Site site{entry, origin};
  ops::Shape shape;
  switch (entry.spec.type) {
    case LayerType::conv2d:
      shape = infer_conv2d(site, inputs[0]);
      break;
    case LayerType::max_pool2d:
      shape = infer_max_pool2d(site, inputs[0]);
      break;
    case LayerType::linear:
      shape = infer_linear(site, inputs[0]);
      break;
    case LayerType::add:
      shape = infer_add(site, inputs);
      break;
    case LayerType::relu:
      shape = inputs[0];
      break;
  }
  expect_addressable(site, shape, "output");
  return shape;
}

std::int64_t parameter_count(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type != LayerType::conv2d && layer.type != LayerType::linear) return 0;
  return ops::element_count(weight_shape(layer, input)) + (layer.bias ? layer.out : 0);
}

}  // namespace ddpbench::nn
