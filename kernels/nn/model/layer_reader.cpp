// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The attributes of each layer type. Their defaults are PyTorch's.
#include "kernels/nn/model/layer_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace ddpbench::nn {
namespace {

// Reads a number for both directions, or [h, w].
std::pair<std::int64_t, std::int64_t> read_extent(const JsonReader& json, std::string_view what,
                                                  std::int64_t least) {
  if (!json.value().is_array()) {
    const std::int64_t both = json.integer(what, least, kMostExtent);
    return {both, both};
  }
  const std::vector<JsonReader> pair = json.elements(what);
  if (pair.size() != 2) {
    json.fail(fmt::format("{} must be a number or [h, w], found {} elements", what, pair.size()));
  }
  return {pair[0].integer(what, least, kMostExtent), pair[1].integer(what, least, kMostExtent)};
}

// Reads what each side of the map gets: also "same", or [top, bottom, left, right].
void read_padding(const JsonReader& padding, LayerSpec& spec) {
  ops::Window2d& w = spec.window;
  if (padding.value().is_string()) {
    if (padding.string("padding") != "same")
      padding.fail("padding is a number, [h, w], [top, bottom, left, right] or \"same\"");
    if (w.stride_h != 1 || w.stride_w != 1)
      padding.fail("padding \"same\" needs a stride of 1; say [top, bottom, left, right] instead");
    const std::int64_t h = spec.dilation.h * (w.kernel_h - 1);
    const std::int64_t v = spec.dilation.w * (w.kernel_w - 1);
    w.pad_h = h / 2, w.more_h = h % 2, w.pad_w = v / 2, w.more_w = v % 2;
  } else if (padding.value().is_array() && padding.value().size() == 4) {
    std::array<std::int64_t, 4> sides{};
    for (std::size_t i = 0; const JsonReader& side : padding.elements("padding"))
      sides[i++] = side.integer("padding", 0, kMostExtent);
    w.pad_h = sides[0], w.more_h = sides[1] - sides[0];
    w.pad_w = sides[2], w.more_w = sides[3] - sides[2];
  } else {
    std::tie(w.pad_h, w.pad_w) = read_extent(padding, "padding", 0);
  }
}

// Reads the attribute `key` of a layer, which has those before it in its type's list already.
void read_attribute(const JsonReader& json, std::string_view key, LayerEntry& entry) {
  LayerSpec& spec = entry.spec;
  ops::Window2d& w = spec.window;
  if (key == "out_channels" || key == "out_features") {
    spec.out = json.integer(key, 1, kMostExtent);
  } else if (key == "kernel") {
    std::tie(w.kernel_h, w.kernel_w) = read_extent(json, key, 1);
    if (spec.type != LayerType::conv2d) w.stride_h = w.kernel_h, w.stride_w = w.kernel_w;
  } else if (key == "stride") {
    std::tie(w.stride_h, w.stride_w) = read_extent(json, key, 1);
  } else if (key == "dilation") {
    std::tie(spec.dilation.h, spec.dilation.w) = read_extent(json, key, 1);
  } else if (key == "padding") {
    read_padding(json, spec);
  } else if (key == "ceil_mode") {
    w.ceil_mode = json.boolean(key);
  } else if (key == "count_include_pad") {
    spec.count_include_pad = json.boolean(key);
  } else if (key == "groups") {
    spec.groups = json.integer(key, 1, kMostExtent);
    if (spec.out % spec.groups != 0) {
      json.fail(fmt::format("groups is {}, which does not divide out_channels, {}", spec.groups,
                            spec.out));
    }
  } else if (key == "bias") {
    spec.bias = json.boolean(key);
  } else if (key == "trainable") {
    spec.trainable = json.boolean(key);
  } else if (key == "init") {
    entry.has_init = true;
    spec.init = read_init(json);
  } else if (key == "output_size") {
    std::tie(spec.out_h, spec.out_w) = read_extent(json, key, 1);
  } else if (key == "eps") {
    spec.eps = json.number(key, 0, 1);
  } else if (key == "momentum") {
    spec.momentum = json.number(key, 0, 1);
  } else if (key == "affine") {
    spec.affine = json.boolean(key);
  } else if (key == "p") {
    spec.drop_probability = json.number(key, 0, 1);
    if (spec.drop_probability == 1) json.fail("p is 1, which drops everything; it must be less");
  } else {  // in_channels, in_features, num_features
    entry.declared_in = json.integer(key, 1, kMostExtent);
  }
}

// What an entry of a type has beside its name, type and inputs, in the order in which it is read;
// the first `needed` of them must be there. `in_key` may say how many channels or features the
// layer reads.
struct Kind {
  std::vector<std::string_view> keys = {};
  std::size_t needed = 0;
  std::string_view in_key = {};
};

// Activations, sums and the like have nothing.
Kind kind_of(LayerType type) {
  static const std::map<LayerType, Kind> kKinds = {
      {LayerType::conv2d,
       {{"out_channels", "kernel", "stride", "dilation", "padding", "groups", "bias", "init",
         "trainable", "in_channels"},
        2,
        "in_channels"}},
      {LayerType::linear,
       {{"out_features", "bias", "init", "trainable", "in_features"}, 1, "in_features"}},
      {LayerType::batch_norm2d,
       {{"eps", "momentum", "affine", "trainable", "num_features"}, 0, "num_features"}},
      {LayerType::max_pool2d, {{"kernel", "stride", "padding", "ceil_mode"}, 1}},
      {LayerType::avg_pool2d,
       {{"kernel", "stride", "padding", "ceil_mode", "count_include_pad"}, 1}},
      {LayerType::adaptive_avg_pool2d, {{"output_size"}, 1}},
      // Without a size the layer has a second input, which gives it (take_size).
      {LayerType::upsample_bilinear, {{"output_size"}}},
      {LayerType::dropout, {{"p"}}}};
  const auto found = kKinds.find(type);
  return found == kKinds.end() ? Kind{} : found->second;
}

// An `add` has two inputs, as an `upsample_bilinear` without a size, a `concat` two or more, all
// others one.
void expect_input_count(const JsonReader& json, const LayerEntry& entry, std::size_t found) {
  const bool concat = entry.spec.type == LayerType::concat;
  const bool takes_size = entry.spec.type == LayerType::upsample_bilinear && entry.spec.out_h == 0;
  const std::size_t wanted = concat || takes_size || entry.spec.type == LayerType::add ? 2 : 1;
  if (concat ? found >= wanted && found <= kMostInputs : found == wanted) return;
  const std::string message =
      fmt::format("the layer \"{}\" of type {} takes {}{}{}, found {}", entry.spec.name,
                  to_string(entry.spec.type), concat ? "from 2 to " : "",
                  counted(concat ? kMostInputs : wanted, "input"),
                  takes_size ? " or has an \"output_size\"" : "", found);
  json.has("inputs") ? json.at("inputs").fail(message) : json.fail(message);
}

void read_inputs(const JsonReader& json, const std::string& previous, LayerEntry& entry) {
  if (!json.has("inputs")) {
    expect_input_count(json, entry, 1);
    entry.input_names = {previous};
    entry.input_places = {entry.place};
    return;
  }
  const std::vector<JsonReader> inputs = json.at("inputs").elements("inputs");
  expect_input_count(json, entry, inputs.size());
  for (const JsonReader& input : inputs) {
    entry.input_names.push_back(input.string("an input"));
    entry.input_places.push_back(input.place());
  }
}

}  // namespace

// Names become part of messages and of tensor names in checkpoints.
void expect_name(const JsonPlace& place, std::string_view name, std::string_view what) {
  const bool legal = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
  if (!legal) {
    place.fail(fmt::format("\"{}\" is no {}; use letters, digits, '_', '.' and '-'",
                           message_text(name), what));
  }
  if (name.size() <= kLongestName) return;
  place.fail(fmt::format("a {} has {} characters at most, this one has {}", what, kLongestName,
                         name.size()));
}

Init read_init(const JsonReader& json) {
  if (json.value().is_number()) {
    return {InitKind::normal, json.number("the deviation of a normal distribution", 0, 1e3)};
  }
  return {static_cast<InitKind>(json.word("init", kInitNames))};
}

std::string read_name(const JsonReader& json) {
  std::string name = json.string("a layer's name");
  expect_name(json.place(), name, "layer name");
  if (name == kInputName)
    json.fail("\"input\" is the network's input; give the layer another name");
  return name;
}

LayerEntry read_layer(const JsonReader& json, const std::string& previous) {
  json.expect_object("a layer");
  LayerEntry entry{.place = json.place()};
  entry.spec.type = static_cast<LayerType>(json.at("type").word("layer type", kLayerTypeNames));
  const Kind kind = kind_of(entry.spec.type);
  std::vector<std::string_view> known = kind.keys;
  known.insert(known.end(), {"name", "type", "inputs"});
  for (const auto& [key, member] : json.members("a layer")) {
    if (key.starts_with("weight") || key.starts_with("share") || key.starts_with("tie"))
      member.fail("layers cannot share weights; each has its own, so leave the key out");
  }
  json.expect_keys(fmt::format("a layer of type {}", to_string(entry.spec.type)), known);
  entry.spec.name = read_name(json.at("name"));
  for (std::size_t i = 0; i < kind.keys.size(); ++i) {
    const std::string_view key = kind.keys[i];
    if (i < kind.needed || json.has(key)) read_attribute(json.at(key), key, entry);
  }
  read_inputs(json, previous, entry);
  return entry;
}

bool take_size(LayerEntry& entry, const std::vector<ops::Shape>& inputs) {
  LayerSpec& layer = entry.spec;
  if (layer.type != LayerType::upsample_bilinear || layer.out_h != 0) return false;
  if (inputs[1].size() != 3)
    entry.place.fail(
        fmt::format("the layer \"{}\" cannot take the size of \"{}\" of shape {}, "
                    "which is no map [channels, h, w]",
                    layer.name, entry.input_names[1], ops::to_string(inputs[1])));
  layer.out_h = inputs[1][1], layer.out_w = inputs[1][2];
  return true;
}

ops::Shape infer_shape(const LayerEntry& entry, const std::vector<ops::Shape>& inputs) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const LayerSpec& layer = entry.spec;
  const auto fail = [&](const JsonPlace& place, const std::string& why) {
    std::vector<std::string> read;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      read.push_back(
          fmt::format("\"{}\" of shape {}", entry.input_names[i], ops::to_string(inputs[i])));
    }
    place.fail(fmt::format("the layer \"{}\" cannot read {}: {}", layer.name,
                           fmt::join(read, " and "), why));
  };
  const auto expect_addressable = [&](const char* what, const ops::Shape& shape) {
    if (ops::element_count(shape) <= kLargest) return;
    fail(entry.place, fmt::format("its {} would be {}, more than {} elements", what,
                                  ops::to_string(shape), kLargest));
  };
  ops::OpPlan plan;
  try {
    if (layer.type == LayerType::add && inputs[0] != inputs[1])
      throw ConfigError("add: the shapes must be equal");
    plan = plan_of(layer, inputs);
  } catch (const ConfigError& error) {
    fail(entry.place, error.what());
  }
  const std::int64_t met =
      layer.type == LayerType::linear ? ops::element_count(inputs[0]) : inputs[0][0];
  if (entry.declared_in != 0 && entry.declared_in != met) {
    const std::string_view key = kind_of(layer.type).in_key;
    fail(entry.place.step(key),
         fmt::format("{} is {}, but the input makes {}", key, entry.declared_in, met));
  }
  for (const ops::ParameterSpec& spec : plan.parameters) {
    expect_addressable(spec.name.c_str(), spec.shape);
  }
  ops::Shape shape(plan.output.shape.begin() + 1, plan.output.shape.end());
  expect_addressable("output", shape);
  return shape;
}

}  // namespace ddpbench::nn
