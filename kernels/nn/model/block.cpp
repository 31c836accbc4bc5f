// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/block.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/nearest_name.h"
#include "kernels/nn/model/layer_reader.h"

namespace ddpbench::nn {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

// A layer of a block is copied for every placement, so its text is bounded. That of a layer that
// makes sense has some hundred bytes.
constexpr std::size_t kLongestLayer = 4 * kKiB;
// Numbers in a parameter's value: a pair [h, w].
constexpr std::size_t kLongestValue = 2;

std::string step(const std::string& pointer, std::string_view key) {
  return pointer + "/" + pointer_step(key);
}

std::vector<std::string_view> keys_of_object(const Json& object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// A number, true or false, a word, or a pair of such.
void expect_value(const Json& value, const std::string& origin, const std::string& pointer) {
  const auto is_plain = [](const Json& v) {
    return v.is_number() || v.is_boolean() ||
           (v.is_string() && v.get_ref<const std::string&>().size() <= kLongestName);
  };
  if (is_plain(value)) return;
  const bool is_pair = value.is_array() && value.size() == kLongestValue &&
                       std::all_of(value.begin(), value.end(), is_plain);
  if (is_pair) return;
  fail_at(origin, pointer,
          "a parameter's value must be a number, true or false, a short text, or a pair [h, w]");
}

// The names behind the "$" of all texts in `value`.
void collect_parameters(const Json& value, std::set<std::string, std::less<>>& names) {
  if (value.is_string() && value.get_ref<const std::string&>().starts_with('$')) {
    names.insert(value.get_ref<const std::string&>().substr(1));
  } else if (value.is_structured()) {
    for (const Json& part : value) collect_parameters(part, names);
  }
}

void read_parameters(const JsonReader& reader, const Json& value, const std::string& origin,
                     Block& block) {
  if (!value.contains("parameters")) return;
  const JsonReader place = reader.at("parameters");
  place.expect_object("parameters");
  block.parameters = &value.at("parameters");
  std::set<std::string, std::less<>> used;
  collect_parameters(*block.layers, used);
  for (const auto& [name, standard] : block.parameters->items()) {
    const std::string pointer = step(place.pointer(), name);
    expect_name(origin, pointer, name, "parameter name");
    if (!standard.is_null()) expect_value(standard, origin, pointer);
    if (used.contains(name)) continue;
    fail_at(origin, pointer,
            fmt::format("no layer of the block \"{}\" uses the parameter: say \"${}\" where its "
                        "value belongs",
                        block.name, name));
  }
}

void read_input_names(const JsonReader& reader, Block& block) {
  block.inputs = {std::string(kInputName)};
  if (!reader.has("inputs")) return;
  const std::vector<JsonReader> inputs = reader.at("inputs").elements("inputs");
  if (inputs.empty() || inputs.size() > kMostInputs) {
    reader.at("inputs").fail(
        fmt::format("a block has from 1 to {} inputs, found {}", kMostInputs, inputs.size()));
  }
  block.inputs.clear();
  for (const JsonReader& input : inputs) {
    const std::string name = input.string("an input's name");
    expect_name(input.document(), input.pointer(), name, "name of an input");
    if (std::find(block.inputs.begin(), block.inputs.end(), name) != block.inputs.end()) {
      input.fail(fmt::format("the block \"{}\" has two inputs \"{}\"", block.name, name));
    }
    block.inputs.push_back(name);
  }
}

// The layers' own attributes are checked where the block is placed.
std::vector<std::string> read_layer_names(const JsonReader& reader, Block& block) {
  std::vector<std::string> names;
  for (const JsonReader& layer : reader.at("layers").elements("layers")) {
    layer.expect_object("a layer");
    const JsonReader name = layer.at("name");
    names.push_back(read_name(name));
    if (std::find(block.inputs.begin(), block.inputs.end(), names.back()) != block.inputs.end()) {
      name.fail(fmt::format("\"{}\" is an input of the block \"{}\"; give the layer another name",
                            names.back(), block.name));
    }
    const std::size_t bytes = (*block.layers)[names.size() - 1].dump().size();
    if (bytes <= kLongestLayer) continue;
    layer.fail(fmt::format("a layer of a block has {} bytes at most, this one has {}",
                           kLongestLayer, bytes));
  }
  if (names.empty()) {
    reader.at("layers").fail(
        fmt::format("the block \"{}\" has no layers; it needs one at least", block.name));
  }
  return names;
}

Block read_block(const std::string& name, const Json& value, const std::string& origin,
                 const std::string& pointer) {
  constexpr std::array kKeys = {"parameters"sv, "inputs"sv, "layers"sv, "output"sv};
  expect_name(origin, pointer, name, "block name");
  const JsonReader reader(value, origin, pointer);
  reader.expect_object("a block");
  reader.expect_keys("a block", kKeys);
  Block block{.name = name, .pointer = pointer};
  reader.at("layers").elements("layers");
  block.layers = &value.at("layers");
  read_input_names(reader, block);
  const std::vector<std::string> names = read_layer_names(reader, block);
  read_parameters(reader, value, origin, block);
  block.output = names.back();
  if (!reader.has("output")) return block;
  const JsonReader output = reader.at("output");
  block.output = output.string("output");
  if (std::find(names.begin(), names.end(), block.output) == names.end()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    output.fail(fmt::format("the output \"{}\" is no layer of the block \"{}\"{}",
                            message_text(block.output), name, nearest_or_all(block.output, known)));
  }
  return block;
}

}  // namespace

BlockTable read_blocks(const Json& document, const std::string& origin) {
  BlockTable blocks;
  if (!document.contains("blocks")) return blocks;
  const JsonReader reader = JsonReader(document, origin).at("blocks");
  reader.expect_object("blocks");
  for (const auto& [name, value] : document.at("blocks").items()) {
    blocks.emplace(name, read_block(name, value, origin, step(reader.pointer(), name)));
  }
  return blocks;
}

Json with_values(const Json& layer, const Block& block, const Json& values,
                 const std::string& origin, const std::string& pointer) {
  if (layer.is_string() && layer.get_ref<const std::string&>().starts_with('$')) {
    const std::string name = layer.get_ref<const std::string&>().substr(1);
    const auto found = values.find(name);
    if (found != values.end()) return *found;
    fail_at(origin, pointer,
            fmt::format("the block \"{}\" has no parameter \"{}\"{}", block.name,
                        message_text(name), nearest_or_all(name, keys_of_object(values))));
  }
  if (!layer.is_structured()) return layer;
  Json result = layer;
  if (layer.is_array()) {
    for (std::size_t i = 0; i < layer.size(); ++i) {
      result[i] = with_values(layer[i], block, values, origin, fmt::format("{}/{}", pointer, i));
    }
    return result;
  }
  for (const auto& [key, value] : layer.items()) {
    result[key] = with_values(value, block, values, origin, step(pointer, key));
  }
  return result;
}

Json values_for(const Block& block, const Json& given, const std::string& origin,
                const std::string& pointer) {
  Json values = block.parameters != nullptr ? *block.parameters : Json::object();
  JsonReader(given, origin, pointer)
      .expect_keys(fmt::format("the values for the block \"{}\"", block.name),
                   keys_of_object(values));
  for (const auto& [name, value] : given.items()) {
    expect_value(value, origin, step(pointer, name));
    values[name] = value;
  }
  for (const auto& [name, value] : values.items()) {
    if (!value.is_null()) continue;
    fail_at(origin, pointer,
            fmt::format("the block \"{}\" needs a value for its parameter \"{}\"; give it in "
                        "\"with\"",
                        block.name, name));
  }
  return values;
}

}  // namespace ddpbench::nn
