// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/update_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/nn/weights.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::bench {
namespace {

// The largest fp32 number is just below 2^128.
constexpr double kLargestComparable = 0x1p100;
// No power of two: backward rounds otherwise than without it. Two roundings of a tensor of few
// numbers may differ by many times what two others did by chance.
constexpr ProbeOptions kSampledRounding = {.loss_factor = 0.7, .allowance = 30};
// Where the probe rounds as the replicas do, the difference is the error itself.
constexpr double kSameRounding = 2;

// Tells that there is a gradient, however small.
constexpr float kLeastSquare = std::numeric_limits<float>::min();

float square_of(double value) { return std::max(static_cast<float>(value * value), kLeastSquare); }

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

// Raises the size of each tensor to what it were if its elements were as large as the layer's are
// on the whole. A bias is the weight of an input that is always 1. A tensor of few elements may
// happen to be far smaller than the terms that it is the sum of.
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

UpdateSizes::UpdateSizes(const nn::Graph& graph, const ops::OptimizerOptions& optimizer,
                         double error, const std::optional<ProbeOptions>& probe)
    : graph_(graph), optimizer_(optimizer), error_(error), probing_(probe) {
  if (optimizer.is_adaptive()) adam_.emplace(optimizer, error);
}

std::size_t UpdateSizes::bytes_per_parameter(const ops::OptimizerOptions& optimizer) {
  // Weights before the step; gradients of the probe, of the slices so far, and with one more, which
  // makes room for the weights after the step. For Adam the four vectors of AdamSizes::Moments and
  // element_slices_.
  const std::size_t values = 4 + (optimizer.is_adaptive() ? 5 : 0);
  return values * sizeof(float);
}

void UpdateSizes::add_probe() { probe_ = nn::export_gradients(graph_); }

void UpdateSizes::add_slice() {
  std::vector<nn::NamedTensor> sum = nn::export_gradients(graph_);
  slices_.resize(sum.size());
  if (adam_) element_slices_.resize(sum.size());
  if (exploded_.empty()) exploded_ = find_exploded(sum);
  for (std::size_t t = 0; t < sum.size(); ++t) {
    if (adam_) element_slices_[t].resize(sum[t].values.size());
    double squared = 0;
    for (std::size_t i = 0; i < sum[t].values.size(); ++i) {
      const double before = sum_.empty() ? 0 : sum_[t].values[i];
      const double slice = sum[t].values[i] - before;
      squared += slice * slice;
      if (adam_ && slice != 0) element_slices_[t][i] += square_of(slice);
    }
    slices_[t] += squared;
  }
  sum_ = std::move(sum);
}

void UpdateSizes::widen_to_measured(std::vector<double>& terms) const {
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
  for (std::size_t t = 0; t < terms.size(); ++t) terms[t] = std::max(terms[t], factor * errors[t]);
}

std::vector<double> UpdateSizes::terms_of(const std::vector<nn::NamedTensor>& before) const {
  // AdamW's weight decay is no term of a gradient, and is equal in all computations of a step.
  const double decay = optimizer_.kind == ops::OptimizerKind::adamw ? 0 : optimizer_.weight_decay;
  std::vector<double> terms(sum_.size());
  for (std::size_t t = 0; t < sum_.size(); ++t) {
    terms[t] = std::sqrt(std::max(slices_[t], squared_norm(sum_[t].values))) +
               decay * std::sqrt(squared_norm(before[t].values));
  }
  raise_to_layers(sum_, terms);
  if (!probe_.empty()) widen_to_measured(terms);
  return terms;
}

std::vector<double> UpdateSizes::descent(const std::vector<double>& terms, double lr) {
  velocity_.resize(terms.size());
  std::vector<double> sizes(terms.size());
  for (std::size_t t = 0; t < terms.size(); ++t) {
    velocity_[t] = optimizer_.momentum * velocity_[t] + terms[t];
    sizes[t] =
        lr * (optimizer_.nesterov ? terms[t] + optimizer_.momentum * velocity_[t] : velocity_[t]);
  }
  return sizes;
}

// Where terms cancel to exactly 0 in one computation, they may not in another.
void UpdateSizes::mark_probed(std::size_t tensor) {
  for (std::size_t i = 0; i < probe_[tensor].values.size(); ++i) {
    float& square = element_slices_[tensor][i];
    if (probe_[tensor].values[i] != 0) square = std::max(square, kLeastSquare);
  }
}

std::vector<double> UpdateSizes::adaptive(const std::vector<double>& terms,
                                          const std::vector<nn::NamedTensor>& before, double lr) {
  adam_->begin_step(lr);
  std::vector<double> sizes(terms.size());
  for (std::size_t t = 0; t < terms.size(); ++t) {
    if (!probe_.empty()) mark_probed(t);
    sizes[t] = adam_->update(t, sum_[t].values, element_slices_[t], terms[t], before[t].values);
    std::ranges::fill(element_slices_[t], 0.0F);
  }
  return sizes;
}

std::vector<double> UpdateSizes::finish_step(const std::vector<nn::NamedTensor>& before) {
  const std::vector<double> terms = terms_of(before);
  const double lr = ops::learning_rate(optimizer_, updates_++);
  std::vector<double> sizes = adam_ ? adaptive(terms, before, lr) : descent(terms, lr);
  probe_.clear();
  sum_.clear();
  std::ranges::fill(slices_, 0);
  return sizes;
}

}  // namespace ddpbench::bench
