// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The attributes of each layer type and their defaults. Shapes follow PyTorch: windows give
// out = floor((in + 2 * padding - span) / stride) + 1 with span = dilation * (kernel - 1) + 1,
// linear layers flatten in row-major order.
#include "kernels/nn/model/layer_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace ddpbench::nn {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPlainKeys = {"name"sv, "type"sv, "inputs"sv};
constexpr std::array kConvKeys = {"name"sv,         "type"sv,     "inputs"sv, "in_channels"sv,
                                  "out_channels"sv, "kernel"sv,   "stride"sv, "padding"sv,
                                  "bias"sv,         "dilation"sv, "groups"sv, "init"sv};
constexpr std::array kBatchNormKeys = {"name"sv, "type"sv,     "inputs"sv, "num_features"sv,
                                       "eps"sv,  "momentum"sv, "affine"sv};
constexpr std::array kPoolKeys = {"name"sv,   "type"sv,   "inputs"sv,
                                  "kernel"sv, "stride"sv, "padding"sv};
constexpr std::array kAveragePoolKeys = {"name"sv,   "type"sv,    "inputs"sv,           "kernel"sv,
                                         "stride"sv, "padding"sv, "count_include_pad"sv};
constexpr std::array kAdaptivePoolKeys = {"name"sv, "type"sv, "inputs"sv, "output_size"sv};
constexpr std::array kDropoutKeys = {"name"sv, "type"sv, "inputs"sv, "p"sv};
constexpr std::array kLinearKeys = {"name"sv,         "type"sv, "inputs"sv, "in_features"sv,
                                    "out_features"sv, "bias"sv, "init"sv};

std::span<const std::string_view> keys_of(LayerType type) {
  switch (type) {
    case LayerType::conv2d:
      return kConvKeys;
    case LayerType::batch_norm2d:
      return kBatchNormKeys;
    case LayerType::max_pool2d:
      return kPoolKeys;
    case LayerType::avg_pool2d:
      return kAveragePoolKeys;
    case LayerType::adaptive_avg_pool2d:
      return kAdaptivePoolKeys;
    case LayerType::linear:
      return kLinearKeys;
    case LayerType::dropout:
      return kDropoutKeys;
    case LayerType::relu:
    case LayerType::add:
    case LayerType::concat:
      break;
  }
  return kPlainKeys;
}

LayerType read_type(const JsonReader& json) {
  const std::string word = json.string("a layer's type");
  const auto found = std::find(kLayerTypeNames.begin(), kLayerTypeNames.end(), word);
  if (found == kLayerTypeNames.end()) {
    json.fail(fmt::format("unknown layer type \"{}\"{}", message_text(word),
                          nearest_or_all(word, kLayerTypeNames)));
  }
  return static_cast<LayerType>(found - kLayerTypeNames.begin());
}

// Reads a number for both directions, or [h, w].
std::pair<std::int64_t, std::int64_t> read_extent(const JsonReader& json, std::string_view what,
                                                  std::int64_t least) {
  if (!json.is_array()) {
    const std::int64_t both = json.integer(what, least, kMostExtent);
    return {both, both};
  }
  const std::vector<JsonReader> pair = json.elements(what);
  if (pair.size() != 2) {
    json.fail(fmt::format("{} must be a number or [h, w], found {} elements", what, pair.size()));
  }
  return {pair[0].integer(what, least, kMostExtent), pair[1].integer(what, least, kMostExtent)};
}

void read_window(const JsonReader& json, LayerSpec& spec) {
  ops::Window2d& w = spec.window;
  const bool pool = spec.type != LayerType::conv2d;
  std::tie(w.kernel_h, w.kernel_w) = read_extent(json.at("kernel"), "kernel", 1);
  w.stride_h = pool ? w.kernel_h : 1;
  w.stride_w = pool ? w.kernel_w : 1;
  if (json.has("stride")) {
    std::tie(w.stride_h, w.stride_w) = read_extent(json.at("stride"), "stride", 1);
  }
  if (!json.has("padding")) return;
  std::tie(w.pad_h, w.pad_w) = read_extent(json.at("padding"), "padding", 0);
  // With more padding a window could see padding only (PyTorch has the same rule for pools).
  if (pool && (2 * w.pad_h > w.kernel_h || 2 * w.pad_w > w.kernel_w)) {
    json.at("padding").fail(fmt::format("padding [{}, {}] is more than half of the kernel [{}, {}]",
                                        w.pad_h, w.pad_w, w.kernel_h, w.kernel_w));
  }
}

void read_weights(const JsonReader& json, std::string_view in_key, std::string_view out_key,
                  LayerEntry& entry) {
  entry.spec.out = json.at(out_key).integer(out_key, 1, kMostExtent);
  if (json.has(in_key)) entry.declared_in = json.at(in_key).integer(in_key, 1, kMostExtent);
  if (json.has("bias")) entry.spec.bias = json.at("bias").boolean("bias");
  entry.has_init = json.has("init");
  if (entry.has_init) entry.spec.init = read_init(json.at("init"));
}

// What a convolution has beside weights and a window.
void read_convolution(const JsonReader& json, LayerSpec& spec) {
  if (json.has("dilation")) {
    std::tie(spec.dilation.h, spec.dilation.w) = read_extent(json.at("dilation"), "dilation", 1);
  }
  if (!json.has("groups")) return;
  spec.groups = json.at("groups").integer("groups", 1, kMostExtent);
  if (spec.out % spec.groups == 0) return;
  json.at("groups").fail(
      fmt::format("groups is {}, which does not divide out_channels, {}", spec.groups, spec.out));
}

// An `add` has two inputs, a `concat` two or more, all others one.
void expect_input_count(const JsonReader& json, const LayerEntry& entry, std::size_t found) {
  const bool concat = entry.spec.type == LayerType::concat;
  const std::size_t wanted = concat || entry.spec.type == LayerType::add ? 2 : 1;
  if (concat ? found >= wanted && found <= kMostInputs : found == wanted) return;
  const std::string message =
      fmt::format("the layer \"{}\" of type {} takes {}{}, found {}", entry.spec.name,
                  to_string(entry.spec.type), concat ? "from 2 to " : "",
                  counted(concat ? kMostInputs : wanted, "input"), found);
  json.has("inputs") ? json.at("inputs").fail(message) : json.fail(message);
}

void read_batch_norm(const JsonReader& json, LayerEntry& entry) {
  if (json.has("num_features")) {
    entry.declared_in = json.at("num_features").integer("num_features", 1, kMostExtent);
  }
  if (json.has("eps")) entry.spec.eps = json.at("eps").number("eps", 0, 1);
  if (json.has("momentum")) entry.spec.momentum = json.at("momentum").number("momentum", 0, 1);
  if (json.has("affine")) entry.spec.affine = json.at("affine").boolean("affine");
}

void read_dropout(const JsonReader& json, LayerSpec& spec) {
  if (!json.has("p")) return;
  spec.drop_probability = json.at("p").number("p", 0, 1);
  if (spec.drop_probability == 1) {
    json.at("p").fail("p is 1, which drops everything; it must be less");
  }
}

void read_inputs(const JsonReader& json, const std::string& previous, LayerEntry& entry) {
  if (!json.has("inputs")) {
    expect_input_count(json, entry, 1);
    entry.input_names = {previous};
    entry.input_pointers = {entry.pointer};
    return;
  }
  const std::vector<JsonReader> inputs = json.at("inputs").elements("inputs");
  expect_input_count(json, entry, inputs.size());
  for (const JsonReader& input : inputs) {
    entry.input_names.push_back(input.string("an input"));
    entry.input_pointers.push_back(input.pointer());
  }
}

// The context of one entry's error messages.
struct Site {
  const LayerEntry& entry;
  const std::string& origin;

  [[noreturn]] void fail(const std::string& message) const {
    fail_at(origin, entry.pointer, message + entry.placed);
  }
  [[noreturn]] void fail_at_key(std::string_view key, const std::string& message) const {
    fail_at(origin, fmt::format("{}/{}", entry.pointer, key), message + entry.placed);
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

ops::Shape windowed(const Site& site, const ops::Shape& input, std::int64_t channels) {
  const LayerSpec& s = site.entry.spec;
  const ops::Window2d span = ops::spanned_window(s.window, s.dilation);
  const std::int64_t h = ops::window_positions(input[1], span.kernel_h, span.stride_h, span.pad_h);
  const std::int64_t w = ops::window_positions(input[2], span.kernel_w, span.stride_w, span.pad_w);
  if (h == 0 || w == 0) {
    site.fail(fmt::format(
        "the kernel [{}, {}] of the layer \"{}\"{} does not fit its input \"{}\" of shape {} with "
        "padding [{}, {}]; make the kernel smaller or the padding larger",
        s.window.kernel_h, s.window.kernel_w, s.name,
        s.dilation == ops::Dilation2d{}
            ? ""
            : fmt::format(" with dilation [{}, {}]", s.dilation.h, s.dilation.w),
        site.entry.input_names[0], ops::to_string(input), s.window.pad_h, s.window.pad_w));
  }
  return {channels, h, w};
}

// The type of an element count. It cannot overflow for four factors of at most 2^31.
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
  if (input[0] % site.entry.spec.groups != 0) {
    site.fail_at_key("groups",
                     fmt::format("groups is {}, which does not divide the {} channels of the input "
                                 "\"{}\" of the layer \"{}\"",
                                 site.entry.spec.groups, input[0], site.entry.input_names[0],
                                 site.entry.spec.name));
  }
  expect_addressable(site, weight_shape(site.entry.spec, input), "weight");
  return windowed(site, input, site.entry.spec.out);
}

ops::Shape infer_concat(const Site& site, std::span<const ops::Shape> inputs) {
  ops::Shape sum = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    ops::Shape rest = inputs[i];
    sum[0] += std::exchange(rest[0], inputs[0][0]);
    if (rest == inputs[0]) continue;
    site.fail(fmt::format(
        "the layer \"{}\" joins the channels of \"{}\" of shape {} and \"{}\" of shape {}; all "
        "else must be equal",
        site.entry.spec.name, site.entry.input_names[0], ops::to_string(inputs[0]),
        site.entry.input_names[i], ops::to_string(inputs[i])));
  }
  return sum;
}

}  // namespace

// Names become part of messages and of tensor names in checkpoints.
void expect_name(const std::string& origin, const std::string& pointer, std::string_view name,
                 std::string_view what) {
  const bool legal = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
  if (!legal) {
    fail_at(origin, pointer,
            fmt::format("\"{}\" is no {}; use letters, digits, '_', '.' and '-'",
                        message_text(name), what));
  }
  if (name.size() <= kLongestName) return;
  fail_at(origin, pointer,
          fmt::format("a {} has {} characters at most, this one has {}", what, kLongestName,
                      name.size()));
}

Init read_init(const JsonReader& json) {
  if (json.is_number()) {
    return {InitKind::normal, json.number("the deviation of a normal distribution", 0, 1e3)};
  }
  const std::string word = json.string("init");
  const auto found = std::find(kInitNames.begin(), kInitNames.end(), word);
  if (found == kInitNames.end()) {
    json.fail(
        fmt::format("unknown init \"{}\"{}, or a number (the deviation of a normal "
                    "distribution)",
                    message_text(word), nearest_or_all(word, kInitNames)));
  }
  return {static_cast<InitKind>(found - kInitNames.begin())};
}

std::string read_name(const JsonReader& json) {
  std::string name = json.string("a layer's name");
  expect_name(json.document(), json.pointer(), name, "layer name");
  if (name == kInputName)
    json.fail("\"input\" is the network's input; give the layer another name");
  return name;
}

LayerEntry read_layer(const JsonReader& json, const std::string& previous) {
  json.expect_object("a layer");
  LayerEntry entry;
  entry.pointer = json.pointer();
  entry.spec.type = read_type(json.at("type"));
  json.expect_keys(fmt::format("a layer of type {}", to_string(entry.spec.type)),
                   keys_of(entry.spec.type));
  entry.spec.name = read_name(json.at("name"));
  switch (entry.spec.type) {
    case LayerType::conv2d:
      read_weights(json, "in_channels", "out_channels", entry);
      read_window(json, entry.spec);
      read_convolution(json, entry.spec);
      break;
    case LayerType::batch_norm2d:
      read_batch_norm(json, entry);
      break;
    case LayerType::avg_pool2d:
      if (json.has("count_include_pad")) {
        entry.spec.count_include_pad = json.at("count_include_pad").boolean("count_include_pad");
      }
      [[fallthrough]];
    case LayerType::max_pool2d:
      read_window(json, entry.spec);
      break;
    case LayerType::adaptive_avg_pool2d:
      std::tie(entry.spec.out_h, entry.spec.out_w) =
          read_extent(json.at("output_size"), "output_size", 1);
      break;
    case LayerType::linear:
      read_weights(json, "in_features", "out_features", entry);
      break;
    case LayerType::dropout:
      read_dropout(json, entry.spec);
      break;
    case LayerType::relu:
    case LayerType::add:
    case LayerType::concat:
      break;
  }
  read_inputs(json, previous, entry);
  return entry;
}

ops::Shape infer_shape(const LayerEntry& entry, std::span<const ops::Shape> inputs,
                       const std::string& origin) {
  const Site site{entry, origin};
  ops::Shape shape;
  switch (entry.spec.type) {
    case LayerType::conv2d:
      shape = infer_conv2d(site, inputs[0]);
      break;
    case LayerType::batch_norm2d:
      expect_image(site, inputs[0]);
      expect_declared(site, "num_features", inputs[0][0], inputs[0]);
      shape = inputs[0];
      break;
    case LayerType::max_pool2d:
    case LayerType::avg_pool2d:
      expect_image(site, inputs[0]);
      shape = windowed(site, inputs[0], inputs[0][0]);
      break;
    case LayerType::adaptive_avg_pool2d:
      expect_image(site, inputs[0]);
      shape = {inputs[0][0], entry.spec.out_h, entry.spec.out_w};
      break;
    case LayerType::concat:
      shape = infer_concat(site, inputs);
      break;
    case LayerType::linear:
      expect_declared(site, "in_features", ops::element_count(inputs[0]), inputs[0]);
      expect_addressable(site, weight_shape(entry.spec, inputs[0]), "weight");
      shape = {entry.spec.out};
      break;
    case LayerType::add:
      shape = infer_add(site, inputs);
      break;
    case LayerType::relu:
    case LayerType::dropout:
      shape = inputs[0];
      break;
  }
  expect_addressable(site, shape, "output");
  return shape;
}

}  // namespace ddpbench::nn
