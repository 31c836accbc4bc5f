// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/checkpoint.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"

namespace ddpbench::nn {
namespace {

constexpr std::string_view kBatchCountName = ".num_batches_tracked";

// "<how many> <what> (<the first of them>, and <n> more)"
std::string counted_list(const std::vector<std::string>& items, std::string_view what,
                         std::string_view separator) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(items.size(), kShown);
  std::string text = joined(std::span(items).first(shown), separator);
  if (shown < items.size()) text += fmt::format("{}and {} more", separator, items.size() - shown);
  return fmt::format("{} {} ({})", items.size(), what, text);
}

// How `tensor` differs from what is wanted; empty: it does not.
std::string difference(const TensorInfo& wanted, const TensorInfo& tensor) {
  if (tensor.shape != wanted.shape) {
    return fmt::format("\"{}\" has the shape {}, needs {}", tensor.name,
                       ops::to_string(tensor.shape), ops::to_string(wanted.shape));
  }
  // Other floats become fp32.
  if ((tensor.type == DataType::int64) == (wanted.type == DataType::int64)) return "";
  return fmt::format("\"{}\" has the type {}, needs {}", tensor.name, to_string(tensor.type),
                     to_string(wanted.type));
}

}  // namespace

std::vector<TensorInfo> checkpoint_tensors(const ModelSpec& model) {
  std::vector<TensorInfo> tensors, frozen, state;
  for (const LayerSpec& layer : model.layers) {
    const ops::OpPlan plan = model.plan_of(layer);
    for (const ops::ParameterSpec& spec : plan.parameters) {
      (layer.trainable ? tensors : frozen).push_back({layer.name + "." + spec.name, spec.shape});
    }
    for (const ops::StateSpec& spec : plan.state) {
      state.push_back({layer.name + "." + spec.name, spec.shape, spec.type});
    }
  }
  std::ranges::move(frozen, std::back_inserter(tensors));
  std::ranges::move(state, std::back_inserter(tensors));
  return tensors;
}

std::string wrapper_prefix(const ModelSpec& model, const std::vector<TensorInfo>& tensors) {
  constexpr std::string_view kWrappers[] = {"module.", "_orig_mod.", "model."};
  const std::vector<TensorInfo> wanted = checkpoint_tensors(model);
  std::string prefix;
  const auto is_own = [&](const TensorInfo& own) { return prefix + own.name == tensors[0].name; };
  while (!tensors.empty() && std::ranges::none_of(wanted, is_own)) {
    const auto next = std::ranges::find_if(kWrappers, [&](std::string_view wrapper) {
      return std::ranges::all_of(tensors, [&](const TensorInfo& tensor) {
        return tensor.name.starts_with(prefix + std::string(wrapper));
      });
    });
    if (next == std::end(kWrappers)) break;
    prefix += *next;
  }
  return prefix;
}

std::vector<std::optional<std::size_t>> match_checkpoint(const ModelSpec& model,
                                                         const std::vector<TensorInfo>& tensors,
                                                         const std::string& origin) {
  const std::size_t skipped = wrapper_prefix(model, tensors).size();
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    by_name[std::string_view(tensors[i].name).substr(skipped)] = i;
  }
  std::vector<std::optional<std::size_t>> matches;
  std::vector<std::string> missing, surplus, unlike, differences;
  for (const TensorInfo& wanted : checkpoint_tensors(model)) {
    std::optional<std::size_t>& match = matches.emplace_back();
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end()) {
      if (!wanted.name.ends_with(kBatchCountName)) {
        missing.push_back(fmt::format("\"{}\"", wanted.name));
      }
      continue;
    }
    match = found->second;
    std::string differs = difference(wanted, tensors[*match]);
    if (!differs.empty()) unlike.push_back(std::move(differs));
    by_name.erase(found);
  }
  for (const auto& [name, tensor] : by_name) surplus.push_back(fmt::format("\"{}\"", name));
  const auto tell = [&](const std::vector<std::string>& items, auto... words) {
    if (!items.empty()) differences.push_back(counted_list(items, words...));
  };
  tell(missing, "missing", ", ");
  tell(surplus, "surplus", ", ");
  tell(unlike, "of another shape or type", "; ");
  if (differences.empty()) return matches;
  throw ConfigError(fmt::format("{}: the tensors are not those of the model {}: {}", origin,
                                model.name, fmt::join(differences, ", ")));
}

std::vector<NamedTensor> tensors_of(const ModelSpec& part, const ModelSpec& whole,
                                    const std::vector<NamedTensor>& tensors) {
  const std::size_t skipped = wrapper_prefix(whole, infos_of(tensors)).size();
  std::set<std::string> wanted;
  for (const TensorInfo& tensor : checkpoint_tensors(part)) wanted.insert(tensor.name);
  std::vector<NamedTensor> found;
  for (const NamedTensor& tensor : tensors) {
    if (!wanted.contains(tensor.name.substr(skipped))) continue;
    found.push_back(tensor);
    found.back().name.erase(0, skipped);
  }
  return found;
}

}  // namespace ddpbench::nn
