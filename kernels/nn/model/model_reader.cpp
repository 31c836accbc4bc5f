// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a model file: its entries, the graph that they form, its order, shapes and output.
#include "kernels/nn/model/model_reader.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "kernels/nn/model/block_reader.h"

namespace ddpbench::nn {
namespace {

using namespace std::string_view_literals;

// A network of a hundred layers has about ten thousand bytes.
constexpr std::size_t kLargestModel = 16 * kMiB;
// The file's entries by name, with their inputs resolved to positions in the file.
struct Network {
  const std::string& origin;
  LayerList layers;
  std::map<std::string_view, int> index = {};  // position of each layer's name
  std::vector<std::vector<int>> inputs = {};  // of each entry; kNetworkInput is the network's input

  const std::vector<LayerEntry>& entries() const { return layers.entries; }
  const LayerEntry& entry(int i) const { return layers.entries[static_cast<std::size_t>(i)]; }
  const std::string& name(int i) const { return entry(i).spec.name; }

  // The position of the layer that a name stands for; nullopt: there is none.
  std::optional<int> find(std::string_view name) const {
    for (auto at = layers.outputs.find(name); at != layers.outputs.end();
         at = layers.outputs.find(name)) {
      name = at->second;
    }
    const auto found = index.find(name);
    return found == index.end() ? std::nullopt : std::optional(found->second);
  }
};

ops::Shape read_input_shape(const JsonReader& json) {
  ops::Shape shape;
  for (const JsonReader& extent : json.elements("input")) {
    shape.push_back(extent.integer("an extent of the input", 1, kMostExtent));
  }
  if (shape.size() != 3) {
    json.fail(fmt::format("input must be [channels, h, w], found {}", ops::to_string(shape)));
  }
  return shape;
}

// The names that a reference may mean, for suggestions.
std::vector<std::string_view> known_names(const Network& network, bool with_input) {
  std::vector<std::string_view> names;
  if (with_input) names.push_back(kInputName);
  for (const LayerEntry& entry : network.entries()) names.push_back(entry.spec.name);
  for (const auto& [name, output] : network.layers.outputs) names.push_back(name);
  return names;
}

void resolve_inputs(Network& network) {
  for (const LayerEntry& entry : network.entries()) {
    network.index.emplace(entry.spec.name, static_cast<int>(network.index.size()));
  }
  for (const LayerEntry& entry : network.entries()) {
    std::vector<int>& inputs = network.inputs.emplace_back();
    for (std::size_t i = 0; i < entry.input_names.size(); ++i) {
      const std::string& name = entry.input_names[i];
      const std::optional<int> found =
          name == kInputName ? std::optional(kNetworkInput) : network.find(name);
      if (!found) {
        fail_at(network.origin, entry.input_pointers[i],
                fmt::format("the layer \"{}\" reads \"{}\", which is no layer{}{}", entry.spec.name,
                            message_text(name), nearest_or_all(name, known_names(network, true)),
                            entry.placed));
      }
      inputs.push_back(*found);
    }
  }
}

// Follows inputs that are not placed yet until one repeats. That is a cycle, named in data order.
[[noreturn]] void fail_with_cycle(const Network& network, const std::vector<bool>& placed) {
  std::vector<int> path;
  std::vector<bool> on_path(placed.size(), false);
  auto current = static_cast<int>(std::find(placed.begin(), placed.end(), false) - placed.begin());
  while (!on_path[static_cast<std::size_t>(current)]) {
    path.push_back(current);
    on_path[static_cast<std::size_t>(current)] = true;
    for (const int input : network.inputs[static_cast<std::size_t>(current)]) {
      if (input == kNetworkInput || placed[static_cast<std::size_t>(input)]) continue;
      current = input;
      break;
    }
  }
  std::string text = fmt::format("\"{}\"", network.name(current));
  constexpr int kMostNamed = 10;
  int named = 0;
  for (auto it = path.rbegin(); *it != current; ++it) {
    if (named++ == kMostNamed) text += " -> ...";
    if (named <= kMostNamed) text += fmt::format(" -> \"{}\"", network.name(*it));
  }
  fail_at(network.origin, network.entry(current).pointer,
          fmt::format("the layers form a cycle: {} -> \"{}\"; a network's data flows one way", text,
                      network.name(current)));
}

// Positions in an order in which each entry follows its inputs, as close to the file's as possible.
std::vector<int> topological_order(const Network& network) {
  const std::size_t count = network.entries().size();
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> missing(count, 0);  // inputs that are not placed yet
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    for (const int input : network.inputs[i]) {
      if (input == kNetworkInput) continue;
      readers[static_cast<std::size_t>(input)].push_back(i);
      ++missing[i];
    }
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<bool> placed(count, false);
  std::vector<int> order;
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    placed[next] = true;
    order.push_back(static_cast<int>(next));
    for (const std::size_t reader : readers[next]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) fail_with_cycle(network, placed);
  return order;
}

// Sets how the weights of each type begin, where a layer does not say it.
void set_inits(const JsonReader& json, Network& network) {
  constexpr std::array kTypes = {LayerType::conv2d, LayerType::linear};
  constexpr std::array kKeys = {to_string(kTypes[0]), to_string(kTypes[1])};
  json.expect_object("init");
  json.expect_keys("init", kKeys);
  for (const LayerType type : kTypes) {
    if (!json.has(to_string(type))) continue;
    const Init init = read_init(json.at(to_string(type)));
    for (LayerEntry& entry : network.layers.entries) {
      if (entry.spec.type == type && !entry.has_init) entry.spec.init = init;
    }
  }
}

int read_output(const JsonReader& root, const Network& network) {
  if (!root.has("output")) return network.find(network.layers.last).value();
  const JsonReader json = root.at("output");
  const std::string name = json.string("output");
  const std::optional<int> found = network.find(name);
  if (!found) {
    json.fail(fmt::format("the output \"{}\" is no layer{}", message_text(name),
                          nearest_or_all(name, known_names(network, false))));
  }
  return *found;
}

// A layer that does not lead to the output would have weights that are never trained.
void expect_all_used(const Network& network, int output) {
  std::vector<bool> used(network.entries().size(), false);
  std::vector<int> pending = {output};
  while (!pending.empty()) {
    const int current = pending.back();
    pending.pop_back();
    if (current == kNetworkInput || used[static_cast<std::size_t>(current)]) continue;
    used[static_cast<std::size_t>(current)] = true;
    for (const int input : network.inputs[static_cast<std::size_t>(current)])
      pending.push_back(input);
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return;
  const LayerEntry& entry = network.entry(static_cast<int>(unused - used.begin()));
  fail_at(
      network.origin, entry.pointer,
      fmt::format(
          "the output \"{}\" does not depend on the layer \"{}\"; remove the layer or connect it{}",
          network.name(output), entry.spec.name, entry.placed));
}

// Moves the entries into `model` in topological order and infers their shapes.
void add_layers(const Network& network, int output, ModelSpec& model) {
  std::vector<int> placed_at(network.entries().size(), kNetworkInput);
  for (const int position : topological_order(network)) {
    const LayerEntry& entry = network.entry(position);
    LayerSpec layer = entry.spec;
    std::vector<ops::Shape> shapes;
    for (const int input : network.inputs[static_cast<std::size_t>(position)]) {
      layer.inputs.push_back(input == kNetworkInput ? kNetworkInput
                                                    : placed_at[static_cast<std::size_t>(input)]);
      const int at = layer.inputs.back();
      shapes.push_back(at == kNetworkInput
                           ? model.input_shape
                           : model.layers[static_cast<std::size_t>(at)].output_shape);
    }
    layer.output_shape = infer_shape(entry, shapes, network.origin);
    placed_at[static_cast<std::size_t>(position)] = static_cast<int>(model.layers.size());
    model.layers.push_back(std::move(layer));
  }
  model.output = placed_at[static_cast<std::size_t>(output)];
}

void expect_logits(const ModelSpec& model, const std::string& origin, bool declared) {
  const LayerSpec& last = model.layers[static_cast<std::size_t>(model.output)];
  if (last.output_shape.size() == 1) return;
  fail_at(
      origin, declared ? "/output" : "/layers",
      fmt::format(
          "the output must be logits of shape [features], the layer \"{}\" gives {}; end with a "
          "linear layer",
          last.name, ops::to_string(last.output_shape)));
}

}  // namespace

ModelSpec parse_model(const std::string& json_text, const std::string& origin) {
  constexpr std::array kKeys = {"$schema"sv, "name"sv,   "input"sv, "blocks"sv,
                                "layers"sv,  "output"sv, "init"sv};
  const nlohmann::json document = parse_json(json_text, origin, {.most_bytes = kLargestModel});
  const JsonReader root(document, origin);
  root.expect_object("a model");
  root.expect_keys("a model", kKeys);

  ModelSpec model;
  model.name = root.at("name").string("name");
  model.input_shape = read_input_shape(root.at("input"));
  Network network{origin, read_layers(document, origin)};
  if (root.has("init")) set_inits(root.at("init"), network);
  resolve_inputs(network);
  const int output = read_output(root, network);
  // The order comes first: "unused" would be a misleading word for a cycle beside the path.
  add_layers(network, output, model);
  expect_all_used(network, output);
  expect_logits(model, origin, root.has("output"));
  return model;
}

ModelSpec load_model_file(const std::string& path) {
  return parse_model(read_file(path, {.what = "model ", .most_bytes = kLargestModel}), path);
}

}  // namespace ddpbench::nn
