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
#include <queue>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "kernels/nn/model/layer_reader.h"

namespace ddpbench::nn {
namespace {

using namespace std::string_view_literals;

// A network of a hundred layers has about ten thousand bytes.
constexpr std::size_t kLargestModel = 16 * kMiB;
// Ten times the layers of the deepest networks that are trained. More would be planned for minutes.
constexpr std::size_t kMostLayers = 10'000;

// The file's entries by name, with their inputs resolved to positions in the file.
struct Network {
  const std::string& origin;
  std::vector<LayerEntry> entries;
  std::map<std::string, int, std::less<>> index;  // position of each name
  std::vector<std::vector<int>> inputs;  // of each entry; kNetworkInput is the network's input

  const std::string& name(int i) const { return entries[static_cast<std::size_t>(i)].spec.name; }
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

void read_entries(const JsonReader& json, Network& network) {
  std::string previous{kInputName};
  const auto layers = json.elements("layers");
  if (layers.size() > kMostLayers) {
    json.fail(fmt::format("a network has {} layers at most, this one has {}", kMostLayers,
                          layers.size()));
  }
  for (const JsonReader& layer : layers) {
    LayerEntry entry = read_layer(layer, previous);
    const int position = static_cast<int>(network.entries.size());
    const auto [first, added] = network.index.emplace(entry.spec.name, position);
    if (!added) {
      layer.at("name").fail(fmt::format(
          "the name \"{}\" is already used at {}; give each layer its own", entry.spec.name,
          network.entries[static_cast<std::size_t>(first->second)].pointer));
    }
    previous = entry.spec.name;
    network.entries.push_back(std::move(entry));
  }
  if (network.entries.empty()) json.fail("layers is empty; a network needs one layer at least");
}

// The names that a reference may mean, for suggestions.
std::vector<std::string_view> known_names(const Network& network, bool with_input) {
  std::vector<std::string_view> names;
  if (with_input) names.push_back(kInputName);
  for (const LayerEntry& entry : network.entries) names.push_back(entry.spec.name);
  return names;
}

void resolve_inputs(Network& network) {
  for (const LayerEntry& entry : network.entries) {
    std::vector<int>& inputs = network.inputs.emplace_back();
    for (std::size_t i = 0; i < entry.input_names.size(); ++i) {
      const std::string& name = entry.input_names[i];
      const auto found = network.index.find(name);
      if (name != kInputName && found == network.index.end()) {
        fail_at(network.origin, entry.input_pointers[i],
                fmt::format("the layer \"{}\" reads \"{}\", which is no layer{}", entry.spec.name,
                            message_text(name), nearest_or_all(name, known_names(network, true))));
      }
      inputs.push_back(name == kInputName ? kNetworkInput : found->second);
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
  fail_at(network.origin, network.entries[static_cast<std::size_t>(current)].pointer,
          fmt::format("the layers form a cycle: {} -> \"{}\"; a network's data flows one way", text,
                      network.name(current)));
}

// Positions in an order in which each entry follows its inputs, as close to the file's as possible.
std::vector<int> topological_order(const Network& network) {
  const std::size_t count = network.entries.size();
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

int read_output(const JsonReader& root, const Network& network) {
  if (!root.has("output")) return static_cast<int>(network.entries.size()) - 1;
  const JsonReader json = root.at("output");
  const std::string name = json.string("output");
  const auto found = network.index.find(name);
  if (found == network.index.end()) {
    json.fail(fmt::format("the output \"{}\" is no layer{}", message_text(name),
                          nearest_or_all(name, known_names(network, false))));
  }
  return found->second;
}

// A layer that does not lead to the output would have weights that are never trained.
void expect_all_used(const Network& network, int output) {
  std::vector<bool> used(network.entries.size(), false);
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
  const LayerEntry& entry = network.entries[static_cast<std::size_t>(unused - used.begin())];
  fail_at(
      network.origin, entry.pointer,
      fmt::format(
          "the output \"{}\" does not depend on the layer \"{}\"; remove the layer or connect it",
          network.name(output), entry.spec.name));
}

// Moves the entries into `model` in topological order and infers their shapes.
void add_layers(const Network& network, int output, ModelSpec& model) {
  std::vector<int> placed_at(network.entries.size(), kNetworkInput);
  for (const int position : topological_order(network)) {
    const LayerEntry& entry = network.entries[static_cast<std::size_t>(position)];
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
  constexpr std::array kKeys = {"name"sv, "input"sv, "layers"sv, "output"sv};
  const nlohmann::json document = parse_json(json_text, origin, {.most_bytes = kLargestModel});
  const JsonReader root(document, origin);
  root.expect_object("a model");
  root.expect_keys("a model", kKeys);

  ModelSpec model;
  model.name = root.at("name").string("name");
  model.input_shape = read_input_shape(root.at("input"));
  Network network{origin, {}, {}, {}};
  read_entries(root.at("layers"), network);
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
