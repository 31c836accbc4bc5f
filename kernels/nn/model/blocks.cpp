// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "kernels/nn/model/layer_reader.h"

namespace ddpbench::nn {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

// One entry of a model's "blocks", checked as far as that needs no values for its parameters.
struct Block {
  std::string name;
  JsonPlace place;                   // "/blocks/stage"
  std::vector<JsonReader> layers;    // objects with names
  std::string output = {};           // name of one of these
  std::vector<std::string> inputs;   // the names under which its layers refer to them
  Json parameters = Json::object();  // their default values, null where a value must be given
};

using BlockTable = std::map<std::string, Block, std::less<>>;

// Numbers in a parameter's value: a pair [h, w].
constexpr std::size_t kLongestValue = 2;

std::vector<std::string_view> keys_of_object(const Json& object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// A number, true or false, a word, or a pair of such.
void expect_value(const JsonReader& reader) {
  const auto is_plain = [](const Json& v) {
    return v.is_number() || v.is_boolean() ||
           (v.is_string() && v.get_ref<const std::string&>().size() <= kLongestName);
  };
  const Json& value = reader.value();
  if (is_plain(value) || (value.is_array() && value.size() == kLongestValue &&
                          std::all_of(value.begin(), value.end(), is_plain)))
    return;
  reader.fail(
      "a parameter's value must be a number, true or false, a short text, or a pair [h, w]");
}

// The name behind the "$" of a text.
std::optional<std::string> parameter_in(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  return text.starts_with('$') ? std::optional(text.substr(1)) : std::nullopt;
}

void read_parameters(const JsonReader& reader, Block& block) {
  if (!reader.has("parameters")) return;
  const std::string layers = reader.at("layers").value().dump();
  for (const auto& [name, standard] : reader.at("parameters").members("parameters")) {
    expect_name(standard.place(), name, "parameter name");
    if (!standard.value().is_null()) expect_value(standard);
    const std::string used = fmt::format("\"${}\"", name);
    if (layers.find(used) == std::string::npos) {
      standard.fail(
          fmt::format("no layer of the block \"{}\" uses the parameter: say {} where its "
                      "value belongs",
                      block.name, used));
    }
    block.parameters[name] = standard.value();
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
    expect_name(input.place(), name, "name of an input");
    if (std::ranges::count(block.inputs, name) > 0) {
      input.fail(fmt::format("the block \"{}\" has two inputs \"{}\"", block.name, name));
    }
    block.inputs.push_back(name);
  }
}

// The layers' own attributes are checked where the block is placed.
std::vector<std::string> read_layer_names(const JsonReader& reader, const Block& block) {
  std::vector<std::string> names;
  for (const JsonReader& layer : block.layers) {
    layer.expect_object("a layer");
    const JsonReader name = layer.at("name");
    names.push_back(read_name(name));
    if (std::find(block.inputs.begin(), block.inputs.end(), names.back()) != block.inputs.end()) {
      name.fail(fmt::format("\"{}\" is an input of the block \"{}\"; give the layer another name",
                            names.back(), block.name));
    }
  }
  if (names.empty()) {
    reader.at("layers").fail(
        fmt::format("the block \"{}\" has no layers; it needs one at least", block.name));
  }
  return names;
}

Block read_block(const std::string& name, const JsonReader& reader) {
  constexpr std::array kKeys = {"parameters"sv, "inputs"sv, "layers"sv, "output"sv};
  expect_name(reader.place(), name, "block name");
  reader.expect_keys("a block", kKeys);
  Block block{name, reader.place(), reader.at("layers").elements("layers")};
  read_input_names(reader, block);
  const std::vector<std::string> names = read_layer_names(reader, block);
  read_parameters(reader, block);
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

// Reads "blocks" of a model; empty where there are none. Throws ConfigError.
BlockTable read_blocks(const JsonReader& model) {
  BlockTable blocks;
  if (!model.has("blocks")) return blocks;
  for (const auto& [name, block] : model.at("blocks").members("blocks")) {
    blocks.emplace(name, read_block(name, block));
  }
  return blocks;
}

// A layer of a block whose strings "$name" are replaced by these values, an object. Throws
// ConfigError for a parameter that the block does not have.
Json with_values(const JsonReader& layer, const Block& block, const Json& values) {
  if (const auto name = parameter_in(layer.value())) {
    const auto found = values.find(*name);
    if (found != values.end()) return *found;
    layer.fail(fmt::format("the block \"{}\" has no parameter \"{}\"{}", block.name,
                           message_text(*name), nearest_or_all(*name, keys_of_object(values))));
  }
  Json result = layer.value();
  if (result.is_array()) {
    for (std::size_t i = 0; const JsonReader& part : layer.elements("a list")) {
      result[i++] = with_values(part, block, values);
    }
  } else if (result.is_object()) {
    for (const auto& [key, part] : layer.members("an object")) {
      result[key] = with_values(part, block, values);
    }
  }
  return result;
}

// The values for one placement of the block: those of its "with", else the defaults. Throws
// ConfigError for a value that is missing, not asked for, or of a wrong kind.
Json values_for(const Block& block, const JsonReader& placement) {
  Json values = block.parameters;
  const bool has_values = placement.has("with");
  if (has_values) {
    const JsonReader given = placement.at("with");
    given.expect_keys(fmt::format("the values for the block \"{}\"", block.name),
                      keys_of_object(values));
    for (const auto& [name, value] : given.members("with")) {
      expect_value(value);
      values[name] = value.value();
    }
  }
  for (const auto& [name, value] : values.items()) {
    if (!value.is_null()) continue;
    (has_values ? placement.at("with") : placement)
        .fail(fmt::format("the block \"{}\" needs a value for its parameter \"{}\"; give it in "
                          "\"with\"",
                          block.name, name));
  }
  return values;
}

constexpr std::size_t kDeepestBlock = 16;

// The network, or one placement of a block.
struct Scope {
  const Block* block = nullptr;  // null: the network
  std::size_t depth = 0;
  std::string prefix;                         // before the names of its layers: "layer1.0."
  std::string placed;                         // before the places of its layers: "/layers/3 -> "
  Json values;                                // of the parameters
  std::map<std::string, std::string> inputs;  // names of the whole network, by their names here
};

// An entry that places a block, without its inputs.
struct PlacedBlock {
  const Block* block;
  std::string name;  // of the whole network
  std::int64_t count = 1, first = 0;
  bool is_repeated = false;
  Json values;
};

class BlockReader {
 public:
  explicit BlockReader(const JsonReader& model) : model_(model), blocks_(read_blocks(model)) {}

  LayerList run() {
    const JsonReader place = model_.at("layers");
    const std::vector<JsonReader> layers = place.elements("layers");
    if (layers.empty()) place.fail("layers is empty; a network needs one layer at least");
    if (layers.size() > kMostLayers) {
      place.fail(fmt::format("a network has {} layers at most, this one has {}", kMostLayers,
                             layers.size()));
    }
    const std::string input(kInputName);
    list_.last = list_.positions.at(read_entries(layers, Scope{.inputs = {{input, input}}}, input));
    for (LayerEntry& entry : list_.entries) {
      const std::string what = fmt::format("the layer \"{}\" reads", entry.spec.name);
      for (std::size_t i = 0; i < entry.input_names.size(); ++i) {
        const std::string& name = entry.input_names[i];
        entry.spec.inputs.push_back(
            name == input ? kNetworkInput : list_.position_of(name, entry.input_places[i], what));
      }
    }
    return std::move(list_);
  }

 private:
  // `first` is what an entry reads that has no "inputs" and none before it. Returns the name of
  // what the last entry gives.
  std::string read_entries(const std::vector<JsonReader>& layers, const Scope& scope,
                           const std::string& first) {
    std::string previous = first;
    for (const JsonReader& layer : layers) {
      if (scope.block == nullptr) {
        previous = read_entry(layer, scope, previous);
        continue;
      }
      const JsonPlace place{layer.place().document, scope.placed + layer.place().pointer};
      const Json filled = with_values({layer.value(), place}, *scope.block, scope.values);
      previous = read_entry({filled, place}, scope, previous);
    }
    return previous;
  }

  // Returns the name of what the entry gives.
  std::string read_entry(const JsonReader& reader, const Scope& scope,
                         const std::string& previous) {
    reader.expect_object("a layer");
    if (reader.has("block")) {
      const auto first = static_cast<std::ptrdiff_t>(list_.entries.size());
      std::string name = place_block(reader, scope, previous);
      if (!reader.has("trainable") || reader.at("trainable").boolean("trainable")) return name;
      for (auto at = list_.entries.begin() + first; at != list_.entries.end(); ++at)
        at->spec.trainable = false;
      return name;
    }
    LayerEntry entry = read_layer(reader, previous);
    entry.spec.name = claim(reader, scope.prefix + entry.spec.name);
    if (reader.has("inputs")) {
      for (std::string& input : entry.input_names) input = resolve(scope, input);
    }
    list_.positions[entry.spec.name] = static_cast<int>(list_.entries.size());
    list_.entries.push_back(std::move(entry));
    if (list_.entries.size() > kMostLayers) {
      model_.at("layers").fail(
          fmt::format("a network has {} layers at most; with its blocks placed, this one has more",
                      kMostLayers));
    }
    return list_.entries.back().spec.name;
  }

  // What a name says in a scope.
  static std::string resolve(const Scope& scope, const std::string& name) {
    const auto input = scope.inputs.find(name);
    return input != scope.inputs.end() ? input->second : scope.prefix + name;
  }

  // Returns `name`, one of the whole network, which only this entry may have.
  std::string claim(const JsonReader& entry, const std::string& name) {
    const JsonPlace place = entry.at("name").place();
    expect_name(place, name, "layer name");
    const auto [first, added] = places_.emplace(name, entry.place().pointer);
    if (added) return name;
    place.fail(
        fmt::format("the name \"{}\" is already used at {}; give each layer its own: "
                    "layers cannot share weights",
                    name, first->second));
  }

  PlacedBlock read_placement(const JsonReader& reader, const Scope& scope) {
    constexpr std::array kKeys = {"name"sv,  "block"sv, "inputs"sv,   "repeat"sv,
                                  "first"sv, "with"sv,  "trainable"sv};
    reader.expect_keys("a layer that places a block", kKeys);
    const JsonReader word = reader.at("block");
    const std::string name = word.string("a block's name");
    const auto found = blocks_.find(name);
    if (found == blocks_.end()) {
      std::vector<std::string_view> known;
      for (const auto& [known_name, block] : blocks_) known.push_back(known_name);
      word.fail(fmt::format("the model has no block \"{}\"{}", message_text(name),
                            nearest_or_all(name, known)));
    }
    PlacedBlock placement{.block = &found->second};
    if (scope.depth == kDeepestBlock) {
      word.fail(fmt::format("blocks are nested deeper than {} levels", kDeepestBlock));
    }
    placement.name = claim(reader, scope.prefix + read_name(reader.at("name")));
    placement.is_repeated = reader.has("repeat");
    if (placement.is_repeated) {
      constexpr std::int64_t kMost = kMostLayers;
      placement.count = reader.at("repeat").integer("repeat", 1, kMost);
      if (reader.has("first")) placement.first = reader.at("first").integer("first", 0, kMost);
      if (placement.block->inputs.size() > 1) {
        reader.at("repeat").fail(
            fmt::format("the block \"{}\" has {} inputs; only one with 1 input can be repeated, "
                        "since each repetition reads the one before",
                        name, placement.block->inputs.size()));
      }
    } else if (reader.has("first")) {
      reader.at("first").fail("first numbers repetitions; say \"repeat\", too, or leave it out");
    }
    placement.values = values_for(*placement.block, reader);
    return placement;
  }

  static std::vector<std::string> read_block_inputs(const JsonReader& reader, const Scope& scope,
                                                    const std::string& previous,
                                                    const Block& block) {
    std::vector<std::string> inputs;
    const bool has_inputs = reader.has("inputs");
    if (!has_inputs) {
      inputs = {previous};
    } else {
      for (const JsonReader& input : reader.at("inputs").elements("inputs")) {
        if (inputs.size() > kMostInputs) break;
        inputs.push_back(resolve(scope, input.string("an input")));
      }
    }
    if (inputs.size() == block.inputs.size()) return inputs;
    (has_inputs ? reader.at("inputs") : reader)
        .fail(fmt::format("the block \"{}\" takes {}, found {}", block.name,
                          counted(block.inputs.size(), "input"), inputs.size()));
  }

  std::string place_block(const JsonReader& reader, const Scope& scope,
                          const std::string& previous) {
    const PlacedBlock placement = read_placement(reader, scope);
    std::vector<std::string> inputs = read_block_inputs(reader, scope, previous, *placement.block);
    for (std::int64_t k = 0; k < placement.count; ++k) {
      std::string name = placement.name;
      if (placement.is_repeated) {
        name += fmt::format(".{}", placement.first + k);
        claim(reader, name);
      }
      place_once(reader, placement, scope, name, inputs);
      inputs = {name};
    }
    if (placement.is_repeated) list_.positions[placement.name] = list_.positions.at(inputs[0]);
    return placement.name;
  }

  void place_once(const JsonReader& reader, const PlacedBlock& placement, const Scope& outer,
                  const std::string& name, const std::vector<std::string>& inputs) {
    const Block& block = *placement.block;
    Scope scope{.block = &block,
                .depth = outer.depth + 1,
                .prefix = name + ".",
                .placed = reader.place().pointer + " -> ",
                .values = placement.values,
                .inputs = {}};
    for (std::size_t i = 0; i < inputs.size(); ++i) scope.inputs[block.inputs[i]] = inputs[i];
    read_entries(block.layers, scope, inputs[0]);
    list_.positions[name] = list_.positions.at(scope.prefix + block.output);
  }

  const JsonReader& model_;
  BlockTable blocks_;
  std::map<std::string, std::string, std::less<>> places_;  // pointer of each name's entry
  LayerList list_;
};

}  // namespace

int LayerList::position_of(const std::string& name, const JsonPlace& place,
                           const std::string& what) const {
  if (const auto found = positions.find(name); found != positions.end()) return found->second;
  std::vector<std::string_view> known = {kInputName};
  for (const auto& [layer, position] : positions) known.push_back(layer);
  place.fail(fmt::format("{} \"{}\", which is no layer{}", what, message_text(name),
                         nearest_or_all(name, known)));
}

LayerList read_layers(const JsonReader& model) { return BlockReader(model).run(); }

}  // namespace ddpbench::nn
