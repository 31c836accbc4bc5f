// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A graph's weights and state: their values at step 0, and all of them as named tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nn/graph.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::nn {

// Sets weights and biases to what each layer's `init` says (model.h), and the state to its start
// values. Element k of tensor t depends only on (seed, t's name, k), so it is the same for every
// strategy, world size, layout and device. Blocks until all are on the device.
void initialize_parameters(Graph& graph, std::uint64_t seed);

// The values of a parameter at step 0 in its PyTorch layout: its start value, or drawn as `init`
// says (Philox4x32-10, Salmon et al., SC'11). IEEE 754 rounds every operation on the way exactly,
// so all machines have equal bits, and so has bench/peers/pytorch_peer/initializer.py.
std::vector<float> start_values(const ParameterInfo& parameter, const Init& init,
                                std::uint64_t seed);

// The weights that are trained, in PyTorch's order (first layer first, weight before bias), and
// those that are frozen.
std::vector<NamedTensor> export_weights(const Graph& graph);
std::vector<NamedTensor> export_frozen(const Graph& graph);
// The state (running statistics), the first layer's first.
std::vector<NamedTensor> export_state(const Graph& graph);
// What PyTorch's state_dict() has: the weights, frozen ones last, then the state.
std::vector<NamedTensor> export_checkpoint(const Graph& graph);
// All gradients in the order of the weights. REQUIRES: a graph for training.
std::vector<NamedTensor> export_gradients(const Graph& graph);
// Of a flat buffer in the plan's order.
std::vector<NamedTensor> export_gradients(const Graph& graph, const BufferView& flat);
// Sets all weights from `values`, those of export_weights() one after the other. Blocks until they
// are on the device.
void import_values(Graph& graph, std::span<const float> values);
// The values of all `state`, one after the other, and back. Counts below 2^53 are exact.
std::vector<double> flat_state(const std::vector<NamedTensor>& state);
void import_state_values(Graph& graph, std::span<const double> values);
// Sets weights and state from the tensors of export_checkpoint(), which may differ from them as
// match_checkpoint() allows; counts of batches that are missing are 0. Throws ConfigError as that
// does, or that names a running variance below 0; then nothing changed.
void import_checkpoint(Graph& graph, const std::vector<NamedTensor>& tensors,
                       const std::string& origin);
// The name of the first tensor of weights, or else of state, that has a value that is not a finite
// number; empty: none has. `device` is the graph's.
std::string find_not_finite(const Graph& graph, Device& device);
std::string find_not_finite(const std::vector<NamedTensor>& tensors);
// Throws ConfigError that names the first value that is not a finite number.
void check_finite(const std::vector<NamedTensor>& tensors, const std::string& origin);

}  // namespace ddpbench::nn
