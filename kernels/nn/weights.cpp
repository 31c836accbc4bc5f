// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "kernels/nn/checkpoint.h"

namespace ddpbench::nn {
namespace {

bool is_not_finite(float value) { return !std::isfinite(value); }

// Throws ConfigError that names the first value that is bad.
template <typename IsBad>
void refuse(const NamedTensor& tensor, const std::string& origin, const IsBad& is_bad,
            const char* why) {
  const auto bad = std::ranges::find_if(tensor.values, is_bad);
  if (bad == tensor.values.end()) return;
  throw ConfigError(fmt::format("{}: value {} of the tensor \"{}\" is {}, and {}", origin,
                                bad - tensor.values.begin(), tensor.name, *bad, why));
}

// A tensor of `count` elements that all have `value(index)`.
template <typename Value>
NamedTensor make_state(const StateInfo& state, const Value& value) {
  NamedTensor tensor{state.name, state.shape, {}, state.type};
  const auto count = static_cast<std::size_t>(ops::element_count(state.shape));
  for (std::size_t k = 0; k < count; ++k) {
    if (state.type == DataType::int64) {
      tensor.integers.push_back(static_cast<std::int64_t>(value(k)));
    } else {
      tensor.values.push_back(static_cast<float>(value(k)));
    }
  }
  return tensor;
}

// In PyTorch's order; the plan's order is the reverse.
std::vector<NamedTensor> export_range(const Graph& graph, const BufferView& flat, std::size_t begin,
                                      std::size_t end) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = end; i-- > begin;) {
    const ParameterInfo& parameter = graph.plan().tensor(i);
    tensors.push_back({parameter.name, parameter.shape, graph.export_parameter(i, flat)});
  }
  return tensors;
}

}  // namespace

void initialize_parameters(Graph& graph, std::uint64_t seed) {
  std::map<std::string_view, Init> inits;
  for (const LayerSpec& layer : graph.model().layers) inits[layer.name] = layer.init;
  for (std::size_t i = 0; i < graph.plan().tensor_count(); ++i) {
    const ParameterInfo& parameter = graph.plan().tensor(i);
    const std::string_view name = parameter.name;
    const Init& init = inits.at(name.substr(0, name.rfind('.')));
    graph.import_parameter(i, start_values(parameter, init, seed), graph.weights().view());
  }
  const std::vector<StateInfo>& state = graph.plan().state;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const NamedTensor start = make_state(state[i], [&](std::size_t) { return state[i].start; });
    graph.import_state(i, bytes_of(start));
  }
}

std::vector<NamedTensor> export_weights(const Graph& graph) {
  return export_range(graph, graph.weights().view(), 0, graph.plan().parameters.size());
}

std::vector<NamedTensor> export_frozen(const Graph& graph) {
  const ParameterPlan& plan = graph.plan();
  return export_range(graph, graph.weights().view(), plan.parameters.size(), plan.tensor_count());
}

std::vector<NamedTensor> export_state(const Graph& graph) {
  const std::vector<StateInfo>& state = graph.plan().state;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < state.size(); ++i) {
    tensors.push_back(
        tensor_of({state[i].name, state[i].shape, state[i].type}, graph.export_state(i)));
  }
  return tensors;
}

std::vector<NamedTensor> export_checkpoint(const Graph& graph) {
  std::vector<NamedTensor> tensors = export_weights(graph);
  std::ranges::move(export_frozen(graph), std::back_inserter(tensors));
  std::ranges::move(export_state(graph), std::back_inserter(tensors));
  return tensors;
}

std::vector<NamedTensor> export_gradients(const Graph& graph) {
  return export_gradients(graph, graph.gradients().view());
}

std::vector<NamedTensor> export_gradients(const Graph& graph, const BufferView& flat) {
  return export_range(graph, flat, 0, graph.plan().parameters.size());
}

void import_values(Graph& graph, std::span<const float> values) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  ensure(values.size() == static_cast<std::size_t>(graph.model().trained_count()),
         "{} values for {} weights", values.size(), graph.model().trained_count());
  for (std::size_t i = parameters.size(), at = 0; i-- > 0;) {
    const auto count = static_cast<std::size_t>(ops::element_count(parameters[i].shape));
    graph.import_parameter(i, values.subspan(at, count), graph.weights().view());
    at += count;
  }
}

std::vector<double> flat_state(const std::vector<NamedTensor>& state) {
  std::vector<double> values;
  for (const NamedTensor& tensor : state) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    for (const std::int64_t count : tensor.integers) values.push_back(static_cast<double>(count));
  }
  return values;
}

void import_state_values(Graph& graph, std::span<const double> values) {
  const std::vector<StateInfo>& state = graph.plan().state;
  ensure(values.size() == static_cast<std::size_t>(graph.model().state_count()),
         "{} values for {} of state", values.size(), graph.model().state_count());
  for (std::size_t i = 0, at = 0; i < state.size(); ++i) {
    const NamedTensor tensor = make_state(state[i], [&](std::size_t k) { return values[at + k]; });
    graph.import_state(i, bytes_of(tensor));
    at += static_cast<std::size_t>(ops::element_count(state[i].shape));
  }
}

void import_checkpoint(Graph& graph, const std::vector<NamedTensor>& tensors,
                       const std::string& origin) {
  const auto matches = match_checkpoint(graph.model(), infos_of(tensors), origin);
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.name.ends_with(".running_var")) continue;
    refuse(
        tensor, origin, [](float value) { return value < 0; },
        "no variance is below 0: evaluation would divide by the square root of it");
  }
  const std::size_t trained = graph.plan().parameters.size();
  const std::size_t parameters = graph.plan().tensor_count();
  const std::vector<StateInfo>& state = graph.plan().state;
  ensure(matches.size() == parameters + state.size(), "{} has other tensors than its plan",
         graph.model().name);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (i < parameters) {  // the plan's order is the reverse
      const std::size_t at = i < trained ? trained - 1 - i : parameters - 1 - (i - trained);
      graph.import_parameter(at, tensors[*matches[i]].values, graph.weights().view());
    } else if (matches[i]) {
      graph.import_state(i - parameters, bytes_of(tensors[*matches[i]]));
    } else {
      const NamedTensor zero = make_state(state[i - parameters], [](std::size_t) { return 0; });
      graph.import_state(i - parameters, bytes_of(zero));
    }
  }
}

// A layout's padding is zero and stays so, so a tensor can be searched as it is stored.
std::string find_not_finite(const Graph& graph, Device& device) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const BufferView kept = graph.kept_weights(i);
    std::vector<float> copy;
    std::span<const float> values = kept.as<float>();
    if (!device.is_host_accessible()) {
      copy.resize(values.size());
      const auto stream = device.make_stream();
      device.copy(*stream, {reinterpret_cast<std::byte*>(copy.data()), kept.bytes}, kept);
      stream->synchronize();
      values = copy;
    }
    if (std::ranges::any_of(values, is_not_finite)) return parameters[i].name;
  }
  return find_not_finite(export_state(graph));
}

std::string find_not_finite(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    if (std::ranges::any_of(tensor.values, is_not_finite)) return tensor.name;
  }
  return "";
}

void check_finite(const std::vector<NamedTensor>& tensors, const std::string& origin) {
  for (const NamedTensor& tensor : tensors) {
    refuse(tensor, origin, is_not_finite, "training from it could only diverge");
  }
}

}  // namespace ddpbench::nn
