// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/blocks.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "base/text.h"

namespace ddpbench::nn {
namespace {

using Json = nlohmann::json;
using namespace std::string_view_literals;

// One entry of a model's "blocks", checked as far as that needs no values for its parameters.
struct Block {
  std::string name, pointer;  // "/blocks/stage"
  // An object of default values, null where a value must be given. nullptr: no parameters.
  const Json* parameters = nullptr;
  std::vector<std::string> inputs;  // the names under which its layers refer to them
  const Json* layers = nullptr;     // an array of objects with names
  std::string output;               // name of one of these
};

using BlockTable = std::map<std::string, Block, std::less<>>;

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

// Reads "blocks" of `document`, which must outlive the table; empty where there are none. Throws
// ConfigError.
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

// A layer of a block whose strings "$name" are replaced by these values, an object. `pointer` is
// that of the layer. Throws ConfigError for a parameter that the block does not have.
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

// The values for one placement of the block: those of `given`, an object with its place, else the
// defaults. Throws ConfigError for a value that is missing, not asked for, or of a wrong kind.
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

constexpr std::size_t kDeepestBlock = 16;

// A name of the whole network and the place in the file that says it.
struct Reference {
  std::string name, pointer;
};

// The network, or one placement of a block.
struct Scope {
  const Block* block = nullptr;  // null: the network
  const Scope* outer = nullptr;
  std::string prefix;  // before the names of its layers: "layer1.0."
  std::string placed;  // what messages add: " (in \"layer1.0\", which /layers/3 places)"
  Json values;         // of the parameters
  std::map<std::string, Reference, std::less<>> inputs;  // by their names here
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
  BlockReader(const Json& document, const std::string& origin)
      : document_(document), origin_(origin), blocks_(read_blocks(document, origin)) {}

  LayerList run() {
    const JsonReader layers = JsonReader(document_, origin_).at("layers");
    const std::size_t count = layers.elements("layers").size();
    if (count == 0) layers.fail("layers is empty; a network needs one layer at least");
    if (count > kMostLayers) {
      layers.fail(
          fmt::format("a network has {} layers at most, this one has {}", kMostLayers, count));
    }
    Scope network;
    network.inputs[std::string(kInputName)] = {std::string(kInputName), layers.pointer()};
    list_.last = read_entries(document_.at("layers"), layers.pointer(), network,
                              network.inputs.begin()->second);
    for (const auto& [name, block] : blocks_) {
      if (used_.contains(name)) continue;
      fail_at(origin_, block.pointer,
              fmt::format("no layer places the block \"{}\"; remove it or say \"block\": \"{}\"",
                          name, name));
    }
    return std::move(list_);
  }

 private:
  // `first` is what an entry reads that has no "inputs" and none before it. Returns the name of
  // what the last entry gives.
  std::string read_entries(const Json& layers, const std::string& pointer, const Scope& scope,
                           const Reference& first) {
    std::string previous = first.name;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string place = fmt::format("{}/{}", pointer, i);
      try {
        previous =
            scope.block == nullptr
                ? read_entry(layers[i], place, scope, previous)
                : read_entry(with_values(layers[i], *scope.block, scope.values, origin_, place),
                             place, scope, previous);
      } catch (const PlacedError&) {
        throw;
      } catch (const ConfigError& error) {
        if (scope.placed.empty()) throw;
        throw PlacedError(error.what() + scope.placed);
      }
    }
    return previous;
  }

  // An error that says where the block is placed in which it is.
  class PlacedError : public ConfigError {
   public:
    using ConfigError::ConfigError;
  };

  // Returns the name of what the entry gives.
  std::string read_entry(const Json& value, const std::string& pointer, const Scope& scope,
                         const std::string& previous) {
    const JsonReader reader(value, origin_, pointer);
    reader.expect_object("a layer");
    if (reader.has("block")) return place_block(reader, value, scope, previous);
    LayerEntry entry = read_layer(reader, previous);
    entry.spec.name = claim_name(reader, scope, entry.spec.name);
    if (reader.has("inputs")) {
      for (std::size_t i = 0; i < entry.input_names.size(); ++i) {
        const Reference input = resolve(scope, {entry.input_names[i], entry.input_pointers[i]});
        entry.input_names[i] = input.name;
      }
    }
    entry.placed = scope.placed;
    list_.entries.push_back(std::move(entry));
    if (list_.entries.size() > kMostLayers) {
      fail_at(origin_, "/layers",
              fmt::format("a network has {} layers at most; with its blocks placed, this one has "
                          "more",
                          kMostLayers));
    }
    return list_.entries.back().spec.name;
  }

  // What a name says in a scope.
  static Reference resolve(const Scope& scope, const Reference& reference) {
    const auto input = scope.inputs.find(reference.name);
    if (input != scope.inputs.end()) return {input->second.name, reference.pointer};
    return {scope.prefix + reference.name, reference.pointer};
  }

  // Returns the name in the whole network.
  std::string claim_name(const JsonReader& entry, const Scope& scope, const std::string& name) {
    std::string whole = scope.prefix + name;
    claim(entry.at("name").pointer(), entry.pointer(), whole);
    return whole;
  }

  void claim(const std::string& pointer, const std::string& entry, const std::string& name) {
    expect_name(origin_, pointer, name, "layer name");
    const auto [first, added] = places_.emplace(name, entry);
    if (added) return;
    fail_at(origin_, pointer,
            fmt::format("the name \"{}\" is already used at {}; give each layer its own", name,
                        first->second));
  }

  PlacedBlock read_placement(const JsonReader& reader, const Json& value, const Scope& scope) {
    constexpr std::array kKeys = {"name"sv, "block"sv, "inputs"sv, "repeat"sv, "first"sv, "with"sv};
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
    used_.insert(name);
    expect_no_circle(word, scope, placement.block);
    placement.name = claim_name(reader, scope, read_name(reader.at("name")));
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
    const bool has_values = reader.has("with");
    if (has_values) reader.at("with").expect_object("with");
    placement.values =
        values_for(*placement.block, has_values ? value.at("with") : Json::object(), origin_,
                   has_values ? reader.at("with").pointer() : reader.pointer());
    return placement;
  }

  static void expect_no_circle(const JsonReader& word, const Scope& scope, const Block* block) {
    std::string path = fmt::format("\"{}\"", block->name);
    std::size_t depth = 1;
    for (const Scope* at = &scope; at->block != nullptr; at = at->outer) {
      path = fmt::format("\"{}\" -> {}", at->block->name, path);
      if (at->block == block) {
        word.fail(fmt::format("the block \"{}\" contains itself: {}", block->name, path));
      }
      if (++depth > kDeepestBlock) {
        word.fail(fmt::format("blocks are nested deeper than {} levels", kDeepestBlock));
      }
    }
  }

  std::vector<Reference> read_block_inputs(const JsonReader& reader, const Scope& scope,
                                           const std::string& previous, const Block& block) {
    std::vector<Reference> inputs;
    if (!reader.has("inputs")) {
      inputs = {{previous, reader.pointer()}};
    } else {
      for (const JsonReader& input : reader.at("inputs").elements("inputs")) {
        if (inputs.size() > kMostInputs) break;
        inputs.push_back(resolve(scope, {input.string("an input"), input.pointer()}));
      }
    }
    if (inputs.size() == block.inputs.size()) return inputs;
    const std::string message = fmt::format("the block \"{}\" takes {}, found {}", block.name,
                                            counted(block.inputs.size(), "input"), inputs.size());
    reader.has("inputs") ? reader.at("inputs").fail(message) : reader.fail(message);
  }

  std::string place_block(const JsonReader& reader, const Json& value, const Scope& scope,
                          const std::string& previous) {
    const PlacedBlock placement = read_placement(reader, value, scope);
    std::vector<Reference> inputs = read_block_inputs(reader, scope, previous, *placement.block);
    for (std::int64_t k = 0; k < placement.count; ++k) {
      std::string name = placement.name;
      if (placement.is_repeated) {
        name += fmt::format(".{}", placement.first + k);
        claim(reader.at("name").pointer(), reader.pointer(), name);
      }
      place_once(reader, placement, scope, name, inputs);
      inputs = {{name, reader.pointer()}};
    }
    if (placement.is_repeated) list_.outputs[placement.name] = inputs[0].name;
    return placement.name;
  }

  void place_once(const JsonReader& reader, const PlacedBlock& placement, const Scope& outer,
                  const std::string& name, const std::vector<Reference>& inputs) {
    const Block& block = *placement.block;
    Scope scope{.block = &block,
                .outer = &outer,
                .prefix = name + ".",
                .placed = fmt::format(" (in \"{}\", which {} places)", name, reader.pointer()),
                .values = placement.values,
                .inputs = {}};
    for (std::size_t i = 0; i < inputs.size(); ++i) scope.inputs[block.inputs[i]] = inputs[i];
    list_.outputs[name] = scope.prefix + block.output;
    read_entries(*block.layers, block.pointer + "/layers", scope, inputs[0]);
  }

  const Json& document_;
  const std::string& origin_;
  BlockTable blocks_;
  std::set<std::string, std::less<>> used_;                 // names of blocks
  std::map<std::string, std::string, std::less<>> places_;  // pointer of each name's entry
  LayerList list_;
};

}  // namespace

LayerList read_layers(const Json& document, const std::string& origin) {
  return BlockReader(document, origin).run();
}

}  // namespace ddpbench::nn
