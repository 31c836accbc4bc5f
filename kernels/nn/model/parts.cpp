// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"

namespace ddpbench::nn {
namespace {

const LayerSpec& layer_at(const ModelSpec& model, int index) {
  return model.layers.at(static_cast<std::size_t>(index));
}

int layer_count(const ModelSpec& model) { return static_cast<int>(model.layers.size()); }

// The layers before `end` (or the network's input) whose values are read from there on.
std::set<int> values_across(const ModelSpec& model, int end) {
  std::set<int> values;
  for (int i = end; i < layer_count(model); ++i) {
    for (const int input : layer_at(model, i).inputs) {
      if (input < end) values.insert(input);
    }
  }
  for (std::size_t k = 0; k < model.output_count(); ++k) {
    if (model.output_layer(k) < end) values.insert(model.output_layer(k));
  }
  return values;
}

bool is_cut(const ModelSpec& model, int layer) {
  return layer + 1 < layer_count(model) && values_across(model, layer + 1) == std::set{layer};
}

// [end] How many of the layers before `end` have something to train.
std::vector<int> trained_before(const ModelSpec& model) {
  std::vector<int> counts = {0};
  for (const LayerSpec& layer : model.layers) {
    const bool trains = layer.trainable && !model.plan_of(layer).parameters.empty();
    counts.push_back(counts.back() + (trains ? 1 : 0));
  }
  return counts;
}

// Finds the best cuts, part by part: the best way to end a part behind each place is one of those
// to end the part before it.
class Balance {
 public:
  Balance(const ModelSpec& model, std::vector<Cut> cuts)
      : model_(model), trained_(trained_before(model)), cuts_(std::move(cuts)) {
    const double all = cost_of(model).step_flops();
    cuts_.push_back({.layer = layer_count(model) - 1, .flops_before = all});
  }

  // Empty: there are not so many parts with something to train.
  std::vector<int> cut(int parts) const {
    std::vector<std::vector<Way>> ways(static_cast<std::size_t>(parts));
    for (std::size_t p = 0; p < ways.size(); ++p) {
      for (std::size_t end = 0; end < cuts_.size(); ++end) {
        ways[p].push_back(p == 0 ? first_part(end) : best(ways[p - 1], end));
      }
    }
    std::vector<int> chosen;
    std::size_t at = cuts_.size() - 1;
    if (ways.back()[at].largest == kNone) return {};
    for (std::size_t p = ways.size(); p-- > 1;) {
      at = ways[p][at].before;
      chosen.insert(chosen.begin(), cuts_[at].layer);
    }
    return chosen;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  struct Way {
    double largest = kNone;   // operations of the largest part
    double crossing = kNone;  // elements of all values that cross
    std::size_t before = 0;   // where the part begins
  };

  Way first_part(std::size_t end) const {
    if (trained_until(end) == 0) return {};
    return {.largest = cuts_[end].flops_before, .crossing = 0};
  }

  Way best(const std::vector<Way>& shorter, std::size_t end) const {
    Way found;
    for (std::size_t i = 0; i < end; ++i) {
      if (trained_until(i) == trained_until(end)) continue;
      const ops::Shape& crosses = layer_at(model_, cuts_[i].layer).output_shape;
      const Way way{
          .largest = std::max(shorter[i].largest, cuts_[end].flops_before - cuts_[i].flops_before),
          .crossing = shorter[i].crossing + static_cast<double>(ops::element_count(crosses)),
          .before = i};
      // The last of equal ones is taken: what fuses with the layer before stays there.
      if (std::pair(way.largest, way.crossing) <= std::pair(found.largest, found.crossing)) {
        found = way;
      }
    }
    return found;
  }

  int trained_until(std::size_t cut) const {
    return trained_[static_cast<std::size_t>(cuts_[cut].layer) + 1];
  }

  const ModelSpec& model_;
  std::vector<int> trained_;
  std::vector<Cut> cuts_;  // and the end
};

int named_cut(const ModelSpec& model, const std::string& name, const std::string& origin) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers) names.push_back(layer.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw ConfigError(fmt::format("{}: {} has no layer \"{}\".{}", origin, model.name, name,
                                  suggestion(name, names)));
  }
  const auto layer = static_cast<int>(found - names.begin());
  if (is_cut(model, layer)) return layer;
  throw ConfigError(fmt::format(
      "{}: behind the layer \"{}\" of {} other than one value crosses (`ddpbench models "
      "--cuts {}` lists the cuts)",
      origin, name, model.name, model.name));
}

void check_parts(const ModelSpec& model, const std::vector<int>& cuts, const std::string& origin) {
  const std::vector<int> trained = trained_before(model);
  int first = 0;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    const int end = i < cuts.size() ? cuts[i] + 1 : layer_count(model);
    if (first >= end) {
      throw ConfigError(fmt::format("{}: the layer \"{}\" does not come behind the cut before it",
                                    origin, layer_at(model, end - 1).name));
    }
    if (trained[static_cast<std::size_t>(first)] == trained[static_cast<std::size_t>(end)]) {
      throw ConfigError(fmt::format("{}: the layers from \"{}\" to \"{}\" have nothing to train",
                                    origin, layer_at(model, first).name,
                                    layer_at(model, end - 1).name));
    }
    first = end;
  }
}

}  // namespace

std::vector<Cut> possible_cuts(const ModelSpec& model) {
  std::vector<Cut> cuts;
  const std::vector<double> flops = step_flops_of_layers(model);
  double before = 0;
  for (int i = 0; i < layer_count(model); ++i) {
    before += flops[static_cast<std::size_t>(i)];
    if (is_cut(model, i)) cuts.push_back({.layer = i, .flops_before = before});
  }
  return cuts;
}

std::vector<int> choose_cuts(const ModelSpec& model, int parts,
                             const std::vector<std::string>& wanted, const std::string& origin) {
  std::vector<int> cuts;
  for (const std::string& name : wanted) cuts.push_back(named_cut(model, name, origin));
  if (!wanted.empty()) {
    if (std::ssize(cuts) != parts - 1) {
      throw ConfigError(fmt::format("{}: {} cuts make {} parts, not {}", origin, cuts.size(),
                                    cuts.size() + 1, parts));
    }
  } else if (parts > 1) {
    const std::vector<Cut> possible = possible_cuts(model);
    cuts = Balance(model, possible).cut(parts);
    if (cuts.empty()) {
      throw ConfigError(fmt::format(
          "{}: the {} cuts of {}, the last of them behind \"{}\", do not make {} parts that have "
          "something to train",
          origin, possible.size(), model.name,
          possible.empty() ? "" : layer_at(model, possible.back().layer).name, parts));
    }
  }
  check_parts(model, cuts, origin);
  return cuts;
}

ModelSpec layers_of(const ModelSpec& model, int first, int end) {
  ModelSpec part = model;
  part.layers.assign(model.layers.begin() + first, model.layers.begin() + end);
  for (LayerSpec& layer : part.layers) {
    for (int& input : layer.inputs) input = input < first ? kNetworkInput : input - first;
  }
  if (first > 0) part.input_shape = layer_at(model, first - 1).output_shape;
  if (end == layer_count(model)) {
    part.output -= first;
    for (AuxiliaryOutput& output : part.auxiliary) output.layer -= first;
  } else {
    part.output = end - first - 1;
    part.auxiliary.clear();
    part.loss = {};
  }
  return part;
}

int layers_before(const ModelSpec& model, const ModelSpec& part) {
  const auto first = std::ranges::find(model.layers, part.layers.at(0).name, &LayerSpec::name);
  return static_cast<int>(first - model.layers.begin());
}

ModelSpec part_of(const ModelSpec& model, const std::vector<int>& cuts, int index) {
  const auto i = static_cast<std::size_t>(index);
  return layers_of(model, i == 0 ? 0 : cuts.at(i - 1) + 1,
                   i < cuts.size() ? cuts[i] + 1 : layer_count(model));
}

}  // namespace ddpbench::nn
