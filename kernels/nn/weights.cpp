// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "kernels/nn/start_values.h"

namespace ddpbench::nn {
namespace {

std::string quoted(const std::string& name) { return fmt::format("\"{}\"", name); }

// Adds "<how many> <what> (<the first of them>, and <n> more)" to `parts`, unless there is none.
void add_part(std::vector<std::string>& parts, const std::vector<std::string>& items,
              std::string_view what, std::string_view separator) {
  constexpr std::size_t kShown = 8;
  if (items.empty()) return;
  const std::size_t shown = std::min(items.size(), kShown);
  std::string text = fmt::format(
      "{}",
      fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), separator));
  if (shown < items.size()) text += fmt::format("{}and {} more", separator, items.size() - shown);
  parts.push_back(fmt::format("{} {} ({})", items.size(), what, text));
}

// What differs between the tensors of a checkpoint and those of a network, in words.
struct Differences {
  std::vector<std::string> missing, surplus, unlike;

  bool empty() const { return missing.empty() && surplus.empty() && unlike.empty(); }
  std::string words() const {
    std::vector<std::string> parts;
    add_part(parts, missing, "missing", ", ");
    add_part(parts, surplus, "surplus", ", ");
    add_part(parts, unlike, "of another shape or type", "; ");
    return fmt::format("{}", fmt::join(parts, ", "));
  }
};

// A tensor that a checkpoint has to have.
struct Wanted {
  std::string name;
  ops::Shape shape;
  DataType type;
  bool is_variance = false;  // no value is below 0
  bool may_miss = false;     // then it is 0
};

bool is_not_finite(float value) { return !std::isfinite(value); }

bool is_variance(const StateInfo& state) { return state.name.ends_with("running_var"); }

// Parameters, then state, both in the plan's order.
std::vector<Wanted> wanted_tensors(const ParameterPlan& plan) {
  std::vector<Wanted> wanted;
  for (const ParameterInfo& parameter : plan.parameters) {
    wanted.push_back({parameter.name, parameter.shape, DataType::fp32});
  }
  for (const StateInfo& state : plan.state) {
    wanted.push_back({state.name, state.shape, state.type, is_variance(state),
                      state.name.ends_with(kBatchCountName)});
  }
  return wanted;
}

// How `tensor` differs from what is wanted; empty: it does not.
std::string difference(const Wanted& wanted, const NamedTensor& tensor) {
  if (tensor.shape != wanted.shape) {
    return fmt::format("\"{}\" has the shape {}, needs {}", tensor.name,
                       ops::to_string(tensor.shape), ops::to_string(wanted.shape));
  }
  if (tensor.type == wanted.type) return "";
  return fmt::format("\"{}\" has the type {}, needs {}", tensor.name, to_string(tensor.type),
                     to_string(wanted.type));
}

void check_variance(const NamedTensor& tensor, const std::string& origin) {
  const auto bad = std::ranges::find_if(tensor.values, [](float value) { return value < 0; });
  if (bad == tensor.values.end()) return;
  throw ConfigError(
      fmt::format("{}: value {} of the tensor \"{}\" is {}, and no variance is below 0: evaluation "
                  "would divide "
                  "by the square root of it",
                  origin, bad - tensor.values.begin(), tensor.name, *bad));
}

// For each tensor of wanted_tensors(): null where there is none and 0 is taken. Throws ConfigError
// when the sets, shapes or types differ, or a value cannot be.
std::vector<const NamedTensor*> match(const Graph& graph, const std::vector<NamedTensor>& tensors,
                                      const std::string& origin) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  const bool wrapped = has_module_prefix(graph.model(), names);
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) {
    by_name[wrapped ? tensor.name.substr(kModulePrefix.size()) : tensor.name] = &tensor;
  }
  const std::vector<Wanted> wanted = wanted_tensors(graph.plan());
  const std::size_t parameters = graph.plan().parameters.size();
  std::vector<const NamedTensor*> matches(wanted.size());
  Differences differences;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    // The plan's order of parameters is the reverse of PyTorch's, in which they are told.
    const std::size_t i = k < parameters ? parameters - 1 - k : k;
    const auto found = by_name.find(wanted[i].name);
    if (found == by_name.end()) {
      if (!wanted[i].may_miss) differences.missing.push_back(quoted(wanted[i].name));
      continue;
    }
    matches[i] = found->second;
    std::string unlike = difference(wanted[i], *found->second);
    if (!unlike.empty()) differences.unlike.push_back(std::move(unlike));
    by_name.erase(found);
  }
  for (const auto& [name, tensor] : by_name) {
    differences.surplus.push_back(quoted(name));
  }
  if (!differences.empty()) {
    throw ConfigError(fmt::format("{}: the tensors are not those of the model {}: {}", origin,
                                  graph.model().name, differences.words()));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].is_variance) check_variance(*matches[i], origin);
  }
  return matches;
}

std::span<const std::byte> bytes_of_tensor(const NamedTensor& tensor) {
  return tensor.type == DataType::int64 ? std::as_bytes(std::span(tensor.integers))
                                        : std::as_bytes(std::span(tensor.values));
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
  std::map<std::string_view, Init> inits;
  for (const LayerSpec& layer : graph.model().layers) inits[layer.name] = layer.init;
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view name = parameters[i].name;
    const Init& init = inits.at(name.substr(0, name.rfind('.')));
    graph.import_parameter(i, start_values(parameters[i], init, seed), graph.weights().view());
  }
  const std::vector<StateInfo>& state = graph.plan().state;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const NamedTensor start = make_state(state[i], [&](std::size_t) { return state[i].start; });
    graph.import_state(i, bytes_of_tensor(start));
  }
}

std::vector<NamedTensor> export_weights(const Graph& graph) {
  return export_all(graph, graph.weights());
}

std::vector<NamedTensor> export_state(const Graph& graph) {
  const std::vector<StateInfo>& state = graph.plan().state;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::vector<std::byte> bytes = graph.export_state(i);
    NamedTensor tensor{state[i].name, state[i].shape, {}, state[i].type};
    const auto fill = [&](auto& values) {
      values.resize(bytes.size() / sizeof(values[0]));
      std::memcpy(values.data(), bytes.data(), bytes.size());
    };
    tensor.type == DataType::int64 ? fill(tensor.integers) : fill(tensor.values);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<NamedTensor> export_checkpoint(const Graph& graph) {
  std::vector<NamedTensor> tensors = export_weights(graph);
  std::ranges::move(export_state(graph), std::back_inserter(tensors));
  return tensors;
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
  std::size_t at = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto count = static_cast<std::size_t>(ops::element_count(state[i].shape));
    ensure(at + count <= values.size(), "{} values for more state", values.size());
    const NamedTensor tensor = make_state(state[i], [&](std::size_t k) { return values[at + k]; });
    graph.import_state(i, bytes_of_tensor(tensor));
    at += count;
  }
  ensure(at == values.size(), "{} values for {} of state", values.size(), at);
}

bool has_module_prefix(const ModelSpec& model, const std::vector<std::string>& names) {
  const auto has_prefix = [](const std::string& name) { return name.starts_with(kModulePrefix); };
  return !names.empty() && std::ranges::all_of(names, has_prefix) &&
         std::ranges::none_of(model.layers, has_prefix, &LayerSpec::name);
}

void import_checkpoint(Graph& graph, const std::vector<NamedTensor>& tensors,
                       const std::string& origin) {
  const std::vector<const NamedTensor*> matches = match(graph, tensors, origin);
  const std::size_t parameters = graph.plan().parameters.size();
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (i < parameters) {
      graph.import_parameter(i, matches[i]->values, graph.weights().view());
    } else if (matches[i] != nullptr) {
      graph.import_state(i - parameters, bytes_of_tensor(*matches[i]));
    } else {
      const NamedTensor zero =
          make_state(graph.plan().state[i - parameters], [](std::size_t) { return 0; });
      graph.import_state(i - parameters, bytes_of_tensor(zero));
    }
  }
}

std::size_t missing_batch_counts(const std::vector<std::string>& names) {
  constexpr std::string_view kMeanName = ".running_mean";
  const std::set<std::string_view> all(names.begin(), names.end());
  return static_cast<std::size_t>(std::ranges::count_if(names, [&](const std::string& name) {
    if (!name.ends_with(kMeanName)) return false;
    const std::string layer = name.substr(0, name.size() - kMeanName.size());
    return !all.contains(layer + std::string(kBatchCountName));
  }));
}

// A layout's padding is zero and stays so, so a tensor can be searched as it is stored.
std::string find_not_finite(const Graph& graph, const Device& device) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  const BufferView weights = graph.weights().view();
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const ParameterInfo& parameter = parameters[i];
    std::vector<float> copy;
    std::span<const float> values;
    if (device.is_host_accessible()) {
      values = weights.slice(parameter.offset_bytes, parameter.bytes).as<float>();
    } else {
      values = copy = graph.export_parameter(i, weights);
    }
    if (std::ranges::any_of(values, is_not_finite)) return parameter.name;
  }
  return "";
}

void check_finite(const std::vector<NamedTensor>& tensors, const std::string& origin) {
  for (const NamedTensor& tensor : tensors) {
    const auto bad = std::ranges::find_if(tensor.values, is_not_finite);
    if (bad == tensor.values.end()) continue;
    throw ConfigError(fmt::format(
        "{}: value {} of the tensor \"{}\" is {}, and training from it could only diverge", origin,
        bad - tensor.values.begin(), tensor.name, *bad));
  }
}

}  // namespace ddpbench::nn
