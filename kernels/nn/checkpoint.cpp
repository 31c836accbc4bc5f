// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Weights of a graph as named tensors, and back.
#include "kernels/nn/checkpoint.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "kernels/nn/graph.h"

namespace ddpbench::nn {
namespace {

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

// Index of the tensor for each parameter. Throws ConfigError when the sets or shapes differ.
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

}  // namespace

std::vector<NamedTensor> export_weights(const Graph& graph) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = parameters.size(); i-- > 0;) {  // the plan's order is the reverse
    tensors.push_back({parameters[i].name, parameters[i].shape,
                       graph.export_parameter(i, graph.weights().view())});
  }
  return tensors;
}

void import_weights(Graph& graph, const std::vector<NamedTensor>& tensors,
                    const std::string& origin) {
  const std::vector<std::size_t> matches = match(graph, tensors, origin);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    graph.import_parameter(i, tensors[matches[i]].values, graph.weights().view());
  }
}

}  // namespace ddpbench::nn
