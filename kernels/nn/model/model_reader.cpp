// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model_reader.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
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
  constexpr std::int64_t kLargestLabel = 65535;  // labels are 16 bits wide
  constexpr std::array kKeys = {"type"sv, "label_smoothing"sv, "ignore_index"sv};
  LossSpec loss{.label_smoothing = read_smoothing(json, "a loss", kKeys)};
  if (json.has("ignore_index")) {
    loss.ignore_index = static_cast<std::int32_t>(
        json.at("ignore_index").integer("ignore_index, a label,", 0, kLargestLabel));
  }
  return loss;
}

// ---- the graph ----

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

// Positions in an order in which each entry follows its inputs, as close to the file's as possible.
std::vector<int> topological_order(const LayerList& layers) {
  const std::size_t count = layers.entries.size();
  std::vector<bool> placed(count, false);
  const auto is_ready = [&](std::size_t i) {
    return !placed[i] && std::ranges::all_of(layers.entries[i].spec.inputs, [&](int input) {
      return input == kNetworkInput || placed[static_cast<std::size_t>(input)];
    });
  };
  std::vector<int> order;
  for (std::size_t first = 0; order.size() < count;) {  // what stands before is placed
    while (placed[first]) ++first;
    std::size_t next = first;
    while (next < count && !is_ready(next)) ++next;
    if (next < count) {
      placed[next] = true;
      order.push_back(static_cast<int>(next));
      continue;
    }
    const auto waiting = static_cast<int>(first);
    layers[waiting].place.fail(
        fmt::format("the layer \"{}\" waits for a cycle of layers; a network's data flows one way",
                    layers[waiting].spec.name));
  }
  return order;
}

// Sets how the weights of each type begin, where a layer does not say it.
void set_inits(const JsonReader& json, LayerList& layers) {
  constexpr std::array kTypes = {LayerType::conv2d, LayerType::linear};
  constexpr std::array kKeys = {to_string(kTypes[0]), to_string(kTypes[1])};
  json.expect_keys("init", kKeys);
  for (const LayerType type : kTypes) {
    if (!json.has(to_string(type))) continue;
    const Init init = read_init(json.at(to_string(type)));
    for (LayerEntry& entry : layers.entries) {
      if (entry.spec.type == type && !entry.has_init) entry.spec.init = init;
    }
  }
}

// The outputs' positions in the file: the output, then the auxiliary ones.
std::vector<int> read_outputs(const JsonReader& root, const LayerList& layers,
                              const std::vector<AuxiliaryEntry>& auxiliary) {
  std::vector<int> outputs;
  if (root.has("output")) {
    const JsonReader json = root.at("output");
    outputs.push_back(layers.position_of(json.string("output"), json.place(), "the output is"));
  } else {
    outputs.push_back(layers.last);
  }
  for (const AuxiliaryEntry& entry : auxiliary) {
    const int found = layers.position_of(entry.name, entry.place, "the auxiliary output is");
    if (std::ranges::find(outputs, found) != outputs.end()) {
      entry.place.fail(
          fmt::format("the layer \"{}\" is an output already", layers[found].spec.name));
    }
    outputs.push_back(found);
  }
  return outputs;
}

// A layer that does not lead to an output would have weights that are never trained.
void expect_all_used(const LayerList& layers, const std::vector<int>& outputs) {
  std::vector<bool> used(layers.entries.size(), false);
  std::vector<int> pending = outputs;
  while (!pending.empty()) {
    const int current = pending.back();
    pending.pop_back();
    if (current == kNetworkInput || used[static_cast<std::size_t>(current)]) continue;
    used[static_cast<std::size_t>(current)] = true;
    const std::vector<int>& inputs = layers[current].spec.inputs;
    pending.insert(pending.end(), inputs.begin(), inputs.end());
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return;
  const LayerEntry& entry = layers[static_cast<int>(unused - used.begin())];
  entry.place.fail(fmt::format(
      "the output \"{}\" does not depend on the layer \"{}\"; remove the layer or connect it",
      layers[outputs[0]].spec.name, entry.spec.name));
}

// Outputs are ends of the graph: what they give is not taken into other layers' operations.
void expect_outputs_unread(const LayerList& layers, const std::vector<int>& outputs) {
  for (const LayerEntry& reader : layers.entries) {
    for (const int read : reader.spec.inputs) {
      if (std::ranges::find(outputs, read) == outputs.end()) continue;
      reader.place.fail(
          fmt::format("the layer \"{}\" reads \"{}\", which is an output; outputs are read by "
                      "no layer",
                      reader.spec.name, layers[read].spec.name));
    }
  }
}

// Moves the entries into `model` in topological order and infers their shapes.
void add_layers(LayerList& layers, const std::vector<int>& outputs, ModelSpec& model) {
  std::vector<int> placed_at(layers.entries.size(), kNetworkInput);
  for (const int position : topological_order(layers)) {
    LayerEntry& entry = layers[position];
    LayerSpec layer = entry.spec;
    for (int& input : layer.inputs) {
      if (input != kNetworkInput) input = placed_at[static_cast<std::size_t>(input)];
    }
    if (take_size(entry, model.inputs_of(layer))) {
      layer.out_h = entry.spec.out_h, layer.out_w = entry.spec.out_w;
      layer.inputs.pop_back();
      entry.spec.inputs.pop_back();
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
  LayerList layers = read_layers(root);
  if (root.has("init")) set_inits(root.at("init"), layers);
  std::vector<AuxiliaryEntry> auxiliary;
  if (root.has("auxiliary")) {
    for (const JsonReader& element : root.at("auxiliary").elements("auxiliary")) {
      model.auxiliary.push_back(auxiliary.emplace_back(read_auxiliary_entry(element)).output);
    }
  }
  const std::vector<int> outputs = read_outputs(root, layers, auxiliary);
  // The order comes first: "unused" would be a misleading word for a cycle beside the path.
  add_layers(layers, outputs, model);
  expect_all_used(layers, outputs);
  if (model.trained_count() == 0 && model.parameter_count() > 0)
    root.at("layers").fail("every layer is frozen; leave one at least to train");
  expect_outputs_unread(layers, outputs);
  expect_equal_logits(model, auxiliary);
  if (root.has("loss")) model.loss = read_loss(root.at("loss"));
  return model;
}

ModelSpec load_model_file(const std::string& path, std::int64_t side) {
  return parse_model(read_file(path, {.what = "model ", .most_bytes = kLargestModel}), path, side);
}

}  // namespace ddpbench::nn
