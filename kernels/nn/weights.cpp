// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element k of an initial tensor is word k mod 4 of philox(counter = (k / 4, hash of the name), key
// = seed).
#include "kernels/nn/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"

namespace ddpbench::nn {
namespace {

// Uniform in (-bound, bound). An odd number below 2^23 in size has at most 24 significant bits. So
// only the last product is rounded, the same on every machine.
float uniform(std::uint32_t bits, float bound) {
  const std::int32_t odd = static_cast<std::int32_t>(bits >> 9) * 2 + 1 - (1 << 23);
  return static_cast<float>(odd) * 0x1p-23f * bound;
}

std::vector<float> draw(const ParameterInfo& parameter, std::uint64_t seed) {
  const std::uint64_t name = hash_bytes(parameter.name.data(), parameter.name.size());
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const PhiloxKey key{low(seed), high(seed)};
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(parameter.fan_in)));

  std::vector<float> values(static_cast<std::size_t>(ops::element_count(parameter.shape)));
  PhiloxCounter random{};
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (k % 4 == 0) random = philox4x32({low(k / 4), high(k / 4), low(name), high(name)}, key);
    values[k] = uniform(random[k % 4], bound);
  }
  return values;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

// The index of each parameter's tensor. Throws ConfigError when the sets or shapes differ.
std::vector<std::size_t> match(const Graph& graph, const std::vector<NamedTensor>& tensors,
                               const std::string& origin) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < tensors.size(); ++i) index[tensors[i].name] = i;
  std::vector<std::size_t> matches;
  std::vector<std::string> missing;
  for (const ParameterInfo& parameter : graph.plan().parameters) {
    const auto found = index.find(parameter.name);
    if (found == index.end()) {
      missing.push_back(parameter.name);
      continue;
    }
    const NamedTensor& tensor = tensors[found->second];
    if (tensor.shape != parameter.shape) {
      throw ConfigError(fmt::format("{}: the tensor \"{}\" has the shape {}, the model {} needs {}",
                                    origin, tensor.name, ops::to_string(tensor.shape),
                                    graph.model().name, ops::to_string(parameter.shape)));
    }
    matches.push_back(found->second);
    index.erase(found);
  }
  if (missing.empty() && index.empty()) return matches;
  std::vector<std::string> surplus;
  surplus.reserve(index.size());
  for (const auto& [name, i] : index) surplus.push_back(name);
  throw ConfigError(fmt::format("{}: the tensors are not those of the model {}:{}{}", origin,
                                graph.model().name,
                                missing.empty() ? "" : " missing " + quoted(missing),
                                surplus.empty() ? "" : " surplus " + quoted(surplus)));
}

// In PyTorch's order; the plan's order is the reverse.
std::vector<NamedTensor> export_all(const Graph& graph, const Buffer& flat) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    tensors.push_back(
        {parameters[i].name, parameters[i].shape, graph.export_parameter(i, flat.view())});
  }
  return tensors;
}

}  // namespace

void initialize_parameters(Graph& graph, std::uint64_t seed) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    graph.import_parameter(i, draw(parameters[i], seed), graph.weights().view());
  }
}

std::vector<NamedTensor> export_weights(const Graph& graph) {
  return export_all(graph, graph.weights());
}

std::vector<NamedTensor> export_gradients(const Graph& graph) {
  return export_all(graph, graph.gradients());
}

void import_values(Graph& graph, std::span<const float> values) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  std::size_t at = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto count = static_cast<std::size_t>(ops::element_count(parameters[i].shape));
    ensure(at + count <= values.size(), "{} values for more weights", values.size());
    graph.import_parameter(i, values.subspan(at, count), graph.weights().view());
    at += count;
  }
  ensure(at == values.size(), "{} values for {} weights", values.size(), at);
}

void import_weights(Graph& graph, const std::vector<NamedTensor>& tensors,
                    const std::string& origin) {
  const std::vector<std::size_t> matches = match(graph, tensors, origin);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    graph.import_parameter(i, tensors[matches[i]].values, graph.weights().view());
  }
}

void check_finite(const std::vector<NamedTensor>& tensors, const std::string& origin) {
  for (const NamedTensor& tensor : tensors) {
    const auto bad =
        std::ranges::find_if(tensor.values, [](float value) { return !std::isfinite(value); });
    if (bad == tensor.values.end()) continue;
    throw ConfigError(fmt::format(
        "{}: value {} of the tensor \"{}\" is {}, and training from it could only diverge", origin,
        bad - tensor.values.begin(), tensor.name, *bad));
  }
}

}  // namespace ddpbench::nn
