// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

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

// ---- what the network is trained for: "loss" and "auxiliary" ----

// An entry of "auxiliary", whose layer is not looked up yet.
struct AuxiliaryEntry {
  AuxiliaryOutput output;  // without its layer
  std::string name;        // of the layer
  JsonPlace place;         // of that name
};

constexpr std::array kLossNames = {"cross_entropy"sv};
constexpr double kLargestWeight = 1000;

// Reads the smoothing of a loss that may have no other keys than `keys`.
double read_smoothing(const JsonReader& json, const char* what,
                      std::span<const std::string_view> keys) {
  json.expect_keys(what, keys);
  if (json.has("type")) json.at("type").word("loss", kLossNames);
  if (!json.has("label_smoothing")) return 0;
  return json.at("label_smoothing").number("label_smoothing", 0, 1);
}

AuxiliaryEntry read_auxiliary_entry(const JsonReader& json) {
  constexpr std::array kKeys = {"output"sv, "weight"sv, "loss"sv};
  constexpr std::array kLossKeys = {"type"sv, "label_smoothing"sv};
  json.expect_keys("an auxiliary output", kKeys);
  AuxiliaryEntry entry;
  const JsonReader name = json.at("output");
  entry.name = name.string("output");
  entry.place = name.place();
  if (json.has("weight")) {
    const JsonReader weight = json.at("weight");
    entry.output.weight = weight.number("weight", 0, kLargestWeight);
    if (entry.output.weight == 0) weight.fail("a weight of 0 trains nothing; leave the output out");
  }
  if (json.has("loss")) {
    entry.output.label_smoothing =
        read_smoothing(json.at("loss"), "an auxiliary output's loss", kLossKeys);
  }
  return entry;
}

LossSpec read_loss(const JsonReader& json) {
  constexpr std::array kKeys = {"type"sv, "label_smoothing"sv, "ignore_index"sv};
  LossSpec loss{.label_smoothing = read_smoothing(json, "a loss", kKeys)};
  if (json.has("ignore_index")) {
    loss.ignore_index = static_cast<std::int32_t>(
        json.at("ignore_index").integer("ignore_index, a label,", 0, kLargestLabel));
  }
  return loss;
}

std::vector<AuxiliaryEntry> read_auxiliary(const JsonReader& json) {
  std::vector<AuxiliaryEntry> entries;
  for (const JsonReader& element : json.elements("auxiliary")) {
    entries.push_back(read_auxiliary_entry(element));
  }
  return entries;
}

// ---- the graph ----

// The file's entries by name, with their inputs resolved to positions in the file.
struct Network {
  LayerList layers;
  std::map<std::string_view, int> index = {};  // position of each layer's name
  std::vector<std::vector<int>> inputs = {};  // of each entry; kNetworkInput is the network's input

  const std::vector<LayerEntry>& entries() const { return layers.entries; }
  LayerEntry& entry(int i) { return layers.entries[static_cast<std::size_t>(i)]; }
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
std::vector<std::string_view> known_names(const Network& network) {
  std::vector<std::string_view> names = {kInputName};
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
        entry.input_places[i].fail(fmt::format("the layer \"{}\" reads \"{}\", which is no layer{}",
                                               entry.spec.name, message_text(name),
                                               nearest_or_all(name, known_names(network))));
      }
      inputs.push_back(*found);
    }
  }
}

// Positions in an order in which each entry follows its inputs: the file's, if that is one.
std::vector<int> topological_order(const Network& network) {
  const std::size_t count = network.entries().size();
  std::vector<bool> placed(count, false);
  const auto is_ready = [&](std::size_t i) {
    return !placed[i] && std::ranges::all_of(network.inputs[i], [&](int input) {
      return input == kNetworkInput || placed[static_cast<std::size_t>(input)];
    });
  };
  std::vector<int> order;
  for (std::size_t before = 0; order.size() < count; before = order.size()) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_ready(i)) continue;
      placed[i] = true;
      order.push_back(static_cast<int>(i));
    }
    if (order.size() > before) continue;
    const auto waiting = static_cast<int>(std::ranges::find(placed, false) - placed.begin());
    network.entry(waiting).place.fail(
        fmt::format("the layer \"{}\" waits for a cycle of layers; a network's data flows one way",
                    network.name(waiting)));
  }
  return order;
}

// Sets how the weights of each type begin, where a layer does not say it.
void set_inits(const JsonReader& json, Network& network) {
  constexpr std::array kTypes = {LayerType::conv2d, LayerType::linear};
  constexpr std::array kKeys = {to_string(kTypes[0]), to_string(kTypes[1])};
  json.expect_keys("init", kKeys);
  for (const LayerType type : kTypes) {
    if (!json.has(to_string(type))) continue;
    const Init init = read_init(json.at(to_string(type)));
    for (LayerEntry& entry : network.layers.entries) {
      if (entry.spec.type == type && !entry.has_init) entry.spec.init = init;
    }
  }
}

// The position of the layer that is named as `what`.
int find_output(const Network& network, const std::string& name, const JsonPlace& place,
                const char* what) {
  if (const std::optional<int> found = network.find(name)) return *found;
  place.fail(fmt::format("the {} \"{}\" is no layer{}", what, message_text(name),
                         nearest_or_all(name, known_names(network))));
}

// The outputs' positions in the file: the output, then the auxiliary ones.
std::vector<int> read_outputs(const JsonReader& root, const Network& network,
                              const std::vector<AuxiliaryEntry>& auxiliary) {
  std::vector<int> outputs;
  if (root.has("output")) {
    const JsonReader json = root.at("output");
    outputs.push_back(find_output(network, json.string("output"), json.place(), "output"));
  } else {
    outputs.push_back(network.find(network.layers.last).value());
  }
  for (const AuxiliaryEntry& entry : auxiliary) {
    const int found = find_output(network, entry.name, entry.place, "auxiliary output");
    if (std::ranges::find(outputs, found) != outputs.end()) {
      entry.place.fail(fmt::format("the layer \"{}\" is an output already", network.name(found)));
    }
    outputs.push_back(found);
  }
  return outputs;
}

// A layer that does not lead to an output would have weights that are never trained.
void expect_all_used(const Network& network, const std::vector<int>& outputs) {
  std::vector<bool> used(network.entries().size(), false);
  std::vector<int> pending = outputs;
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
  entry.place.fail(fmt::format(
      "the output \"{}\" does not depend on the layer \"{}\"; remove the layer or connect it",
      network.name(outputs[0]), entry.spec.name));
}

// Outputs are ends of the graph: what they give is not taken into other layers' operations.
void expect_outputs_unread(const Network& network, const std::vector<int>& outputs) {
  for (std::size_t i = 0; i < network.inputs.size(); ++i) {
    for (std::size_t k = 0; k < network.inputs[i].size(); ++k) {
      const int read = network.inputs[i][k];
      if (std::ranges::find(outputs, read) == outputs.end()) continue;
      const LayerEntry& reader = network.entries()[i];
      reader.place.fail(
          fmt::format("the layer \"{}\" reads \"{}\", which is an output; outputs are read by "
                      "no layer",
                      reader.spec.name, network.name(read)));
    }
  }
}

// Moves the entries into `model` in topological order and infers their shapes.
void add_layers(Network& network, const std::vector<int>& outputs, ModelSpec& model) {
  std::vector<int> placed_at(network.entries().size(), kNetworkInput);
  for (const int position : topological_order(network)) {
    LayerEntry& entry = network.entry(position);
    std::vector<int>& inputs = network.inputs[static_cast<std::size_t>(position)];
    LayerSpec layer = entry.spec;
    for (const int input : inputs) {
      layer.inputs.push_back(input == kNetworkInput ? kNetworkInput
                                                    : placed_at[static_cast<std::size_t>(input)]);
    }
    if (take_size(entry, model.inputs_of(layer))) {
      layer.out_h = entry.spec.out_h, layer.out_w = entry.spec.out_w;
      layer.inputs.pop_back();
      inputs.pop_back();
    }
    layer.output_shape = infer_shape(entry, model.inputs_of(layer));
    placed_at[static_cast<std::size_t>(position)] = static_cast<int>(model.layers.size());
    model.layers.push_back(std::move(layer));
  }
  model.output = placed_at[static_cast<std::size_t>(outputs[0])];
  for (std::size_t k = 1; k < outputs.size(); ++k) {
    model.auxiliary[k - 1].layer = placed_at[static_cast<std::size_t>(outputs[k])];
  }
}

void expect_equal_logits(const ModelSpec& model, const std::vector<AuxiliaryEntry>& auxiliary) {
  for (std::size_t k = 0; k < auxiliary.size(); ++k) {
    const LayerSpec& layer = model.layers[static_cast<std::size_t>(model.auxiliary[k].layer)];
    if (layer.output_shape == model.logits_shape()) continue;
    auxiliary[k].place.fail(fmt::format(
        "the auxiliary output \"{}\" gives {}, the output {}; they have the same "
        "labels, so their shapes must be equal",
        layer.name, ops::to_string(layer.output_shape), ops::to_string(model.logits_shape())));
  }
}

}  // namespace

ModelSpec parse_model(const std::string& json_text, const std::string& origin, std::int64_t side) {
  constexpr std::array kKeys = {"$schema"sv, "name"sv, "input"sv, "blocks"sv,   "layers"sv,
                                "output"sv,  "init"sv, "loss"sv,  "auxiliary"sv};
  const nlohmann::json document = parse_json(json_text, origin, {.most_bytes = kLargestModel});
  const JsonReader root(document, origin);
  root.expect_keys("a model", kKeys);

  ModelSpec model;
  model.name = root.at("name").string("name");
  model.input_shape = read_input_shape(root.at("input"));
  if (side > 0) model.input_shape[1] = model.input_shape[2] = side;
  Network network{read_layers(root)};
  if (root.has("init")) set_inits(root.at("init"), network);
  resolve_inputs(network);
  std::vector<AuxiliaryEntry> auxiliary;
  if (root.has("auxiliary")) auxiliary = read_auxiliary(root.at("auxiliary"));
  for (const AuxiliaryEntry& entry : auxiliary) model.auxiliary.push_back(entry.output);
  const std::vector<int> outputs = read_outputs(root, network, auxiliary);
  // The order comes first: "unused" would be a misleading word for a cycle beside the path.
  add_layers(network, outputs, model);
  expect_all_used(network, outputs);
  if (model.trained_count() == 0 && model.parameter_count() > 0)
    root.at("layers").fail("every layer is frozen; leave one at least to train");
  expect_outputs_unread(network, outputs);
  expect_equal_logits(model, auxiliary);
  if (root.has("loss")) model.loss = read_loss(root.at("loss"));
  return model;
}

ModelSpec load_model_file(const std::string& path, std::int64_t side) {
  return parse_model(read_file(path, {.what = "model ", .most_bytes = kLargestModel}), path, side);
}

}  // namespace ddpbench::nn
