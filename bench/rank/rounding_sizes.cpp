// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rounding_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "kernels/nn/weights.h"

namespace ddpbench::bench {
namespace {

// The largest fp32 number is just below 2^128.
constexpr double kLargestComparable = 0x1p60;
// Of an element: far smaller gradients are no normal numbers, and rounded as coarsely as they are
// large.
constexpr double kLeastSize = 0x1p-80;
// What the terms of a tensor's gradient in the step before count for now. Where a gradient cancels
// over replicas, or to next to nothing in one step, they tell its terms' size.
constexpr double kKeptShare = 0.98;
// No power of two: backward rounds otherwise than without it. Two roundings of a tensor of few
// numbers may differ by many times what two others did by chance.
constexpr ProbeOptions kSampledRounding = {.loss_factor = 0.7, .allowance = 30};
// Where the probe rounds as the replicas do, the difference is the error itself.
constexpr double kSameRounding = 2;

double squared_norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

// "conv1" of "conv1.weight".
std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

struct LayerSum {
  double squared = 0;
  double elements = 0;
};

// Raises each tensor's size to the root mean square of its layer times the root of its elements: a
// tensor of few elements may happen to be far smaller than the terms that it is the sum of. (A bias
// is the weight of an input that is always 1.)
void raise_to_layers(const std::vector<nn::NamedTensor>& tensors, std::vector<double>& sizes) {
  std::map<std::string, LayerSum> layers;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    LayerSum& layer = layers[layer_of(tensors[t].name)];
    layer.squared += sizes[t] * sizes[t];
    layer.elements += static_cast<double>(tensors[t].values.size());
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const LayerSum& layer = layers[layer_of(tensors[t].name)];
    const double share = static_cast<double>(tensors[t].values.size()) / layer.elements;
    sizes[t] = std::max(sizes[t], std::sqrt(share * layer.squared));
  }
}

// What one forward added to element `c` of a running statistic: momentum * the batch's.
double added(const nn::NamedTensor& before, const nn::NamedTensor& after, double momentum,
             std::size_t c) {
  return after.values[c] - (1 - momentum) * before.values[c];
}

}  // namespace

bool has_exploded(double value) { return !(std::abs(value) <= kLargestComparable); }

std::string find_exploded(const std::vector<nn::NamedTensor>& tensors) {
  for (const nn::NamedTensor& tensor : tensors) {
    if (std::ranges::any_of(tensor.values, has_exploded)) return tensor.name;
  }
  return "";
}

std::optional<ProbeOptions> probe_options(const TrainingJob& job) {
  if (!job.is_reference()) return {};
  if (job.options.precision == "fp32") {
    return job.network.has_state ? std::optional(kSampledRounding) : std::nullopt;
  }
  const int replicas = job.cell.world_size;
  if (std::has_single_bit(static_cast<unsigned>(replicas))) return {};
  return ProbeOptions{.loss_factor = static_cast<double>(replicas), .allowance = kSameRounding};
}

void GradientSizes::add_probe() { probe_ = nn::export_gradients(graph_); }

void GradientSizes::add_slice() {
  std::vector<nn::NamedTensor> sum = nn::export_gradients(graph_);
  slices_.resize(sum.size());
  if (exploded_.empty()) exploded_ = find_exploded(sum);
  for (std::size_t t = 0; t < sum.size(); ++t) {
    for (std::size_t i = 0; i < sum[t].values.size(); ++i) {
      const double before = sum_.empty() ? 0 : sum_[t].values[i];
      const double slice = sum[t].values[i] - before;
      slices_[t] += slice * slice;
    }
  }
  sum_ = std::move(sum);
}

void GradientSizes::widen_to_measured(std::vector<double>& sizes) const {
  std::vector<double> errors(sum_.size());
  for (std::size_t t = 0; t < sum_.size(); ++t) {
    double squared = 0;
    for (std::size_t i = 0; i < sum_[t].values.size(); ++i) {
      const double error = probe_[t].values[i] / probing_->loss_factor - sum_[t].values[i];
      squared += error * error;
    }
    errors[t] = std::sqrt(squared);
  }
  raise_to_layers(sum_, errors);
  const double factor = probing_->allowance / error_;
  for (std::size_t t = 0; t < sizes.size(); ++t) sizes[t] = std::max(sizes[t], factor * errors[t]);
}

GradientSizes::Step GradientSizes::finish_step() {
  std::vector<double> sizes(sum_.size());
  for (std::size_t t = 0; t < sum_.size(); ++t) {
    sizes[t] = std::sqrt(std::max(slices_[t], squared_norm(sum_[t].values)));
  }
  raise_to_layers(sum_, sizes);
  earlier_.resize(sizes.size());
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const double least = kLeastSize * std::sqrt(static_cast<double>(sum_[t].values.size()));
    sizes[t] = earlier_[t] = std::max({sizes[t], kKeptShare * earlier_[t], least});
  }
  if (!probe_.empty()) widen_to_measured(sizes);
  probe_.clear();
  std::ranges::fill(slices_, 0);
  return {std::exchange(sum_, {}), std::move(sizes)};
}

std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after) {
  std::vector<double> sizes;
  for (const nn::LayerSpec& layer : model.layers) {
    if (layer.type != nn::LayerType::batch_norm2d) continue;
    const std::size_t at = sizes.size();
    const double momentum = layer.momentum;
    double mean_squared = 0, variance_squared = 0;
    for (std::size_t c = 0; momentum > 0 && c < after.at(at).values.size(); ++c) {
      const double mean = std::abs(added(before.at(at), after.at(at), momentum, c));
      const double variance =
          std::max(added(before.at(at + 1), after.at(at + 1), momentum, c), 0.0) / momentum;
      const double deviation = std::sqrt(variance);
      const double size = mean + momentum * deviation;
      mean_squared += size * size;
      variance_squared += size * size * variance;
    }
    sizes.push_back(std::sqrt(mean_squared));
    sizes.push_back(std::sqrt(variance_squared));
    sizes.push_back(0);
  }
  ensure(sizes.size() == after.size(), "{} tensors of state where the layers have {}", after.size(),
         sizes.size());
  return sizes;
}

}  // namespace ddpbench::bench
