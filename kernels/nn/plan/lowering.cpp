// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes are planned in topological order, those of the micro-batched part at the micro-batch's
// size. A tensor has its producer's layout ("natural") and one more version for each other layout
// that consumers want.
#include "kernels/nn/plan/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "kernels/nn/plan/fusion.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/ops/op.h"

namespace ddpbench::nn {
namespace {

// The nodes that read the tensor of each node, in their order.
std::vector<std::vector<std::size_t>> readers_of(const std::vector<FusedNode>& nodes) {
  std::vector<std::vector<std::size_t>> readers(nodes.size());
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    for (const int input : nodes[k].inputs) {
      if (input == kNetworkInput) continue;
      std::vector<std::size_t>& found = readers[static_cast<std::size_t>(input)];
      if (found.empty() || found.back() != k) found.push_back(k);  // an add may read one twice
    }
  }
  return readers;
}

class Lowering {
 public:
  Lowering(const ModelSpec& model, ops::OpBackend& backend, const GraphOptions& options)
      : model_(model),
        backend_(backend),
        options_(options),
        nodes_(fuse_layers(model)),
        readers_(readers_of(nodes_)),
        micro_batching_(
            choose_micro_batching(model, nodes_, backend, options.batch, options.micro_batch)),
        versions_(nodes_.size() + 1),
        trained_(nodes_.size() + 1, false),
        calls_of_layers_(model.layers.size()) {
    for (const LayerSpec& layer : model.layers) {
      tensors_.push_back({layer.name, {}, {}, layer.trainable});
    }
    plan_.batch = options.batch;
    plan_.micro_batch = micro_batching_.micro_batch;
    ops::Shape shape = model.input_shape;
    shape.insert(shape.begin(), options.batch);
    plan_.input = add_value(plan_, ops::TensorLayout::plain(std::move(shape)), false);
    versions_[slot(kNetworkInput)] = {plan_.input};
    trained_[slot(kNetworkInput)] = options.input_gradient;
  }

  LoweredNetwork run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) lower_node(i);
    ops::Shape logits = model_.logits_shape();
    logits.insert(logits.begin(), plan_.batch);
    const auto plain = ops::TensorLayout::plain(std::move(logits));
    for (std::size_t k = 0; k < model_.output_count(); ++k) {
      plan_.logits.push_back(input_version(output_node(k), plain, false));
    }
    if (micro_batching_.nodes == 0) plan_.micro_batch = 0;
    ParameterPlan parameters = place_parameters();
    parameters.hash = hash_losses(parameters.hash, model_);
    plan_.forward = std::move(micro_calls_);
    std::move(rest_calls_.begin(), rest_calls_.end(), std::back_inserter(plan_.forward));
    return {std::move(plan_), std::move(parameters)};
  }

 private:
  // The index of a node's tensor in versions_ and trained_. The network's input comes first.
  static std::size_t slot(int node) {
    return node == kNetworkInput ? 0 : static_cast<std::size_t>(node) + 1;
  }

  // The node that gives output k. No layer reads outputs, so they are taken into no other node.
  int output_node(std::size_t k) const {
    const auto layer = static_cast<std::size_t>(model_.output_layer(k));
    const auto found = std::ranges::find(nodes_, layer, &FusedNode::last_layer);
    ensure(found != nodes_.end(), "no operation gives the output {}", model_.layers[layer].name);
    return static_cast<int>(found - nodes_.begin());
  }

  std::vector<PlannedCall>& calls(bool micro) { return micro ? micro_calls_ : rest_calls_; }

  ops::Op* keep(std::unique_ptr<ops::Op> op) {
    plan_.operations.push_back(std::move(op));
    return plan_.operations.back().get();
  }

  void lower_node(std::size_t i) {
    const FusedNode& node = nodes_[i];
    bool micro = i < micro_batching_.nodes;
    std::unique_ptr<ops::Op> op = backend_.make(describe(i, micro));
    if (micro && op->plan().couples_samples) {
      micro_batching_.nodes = i;
      micro = false;
      op = backend_.make(describe(i, micro));
    }
    PlannedCall call{.name = node.name, .op = op.get(), .micro = micro};
    const std::size_t own_slot = slot(static_cast<int>(i));
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      call.inputs.push_back(input_version(node.inputs[k], op->plan().inputs[k], micro));
      if (trained_[slot(node.inputs[k])]) trained_[own_slot] = true;
    }
    call.output = add_value(plan_, op->plan().output, micro);
    call.passes_gradient = type_of(i) == LayerType::add &&
                           op->plan().inputs[0] == op->plan().output &&
                           op->plan().inputs[1] == op->plan().output;
    call.saved = add_saved(*op, micro);
    call.is_trained = add_tensors(i, op->plan(), micro);
    if (call.is_trained) trained_[own_slot] = true;
    versions_[own_slot] = {call.output};
    calls(micro).push_back(std::move(call));
    keep(std::move(op));
  }

  ops::OpDesc describe(std::size_t i, bool micro) {
    const FusedNode& node = nodes_[i];
    const LayerSpec& layer = model_.layers[node.layer];
    std::vector<ops::TensorLayout> inputs;
    bool trained = false;
    for (const int input : node.inputs) {
      inputs.push_back(hint(input, micro));
      trained = trained || trained_[slot(input)];
    }
    ops::OpDesc described = operation_of(layer, inputs);
    std::visit(
        [&](auto& desc) {
          if constexpr (requires { desc.needs_grad_input; })
            desc.needs_grad_input = options_.training && trained;
          if constexpr (requires { desc.fuse_relu; }) desc.fuse_relu = node.fuse_relu;
          if constexpr (requires { desc.fuse_add; }) desc.fuse_add = node.fuse_add;
          if constexpr (requires { desc.to_plain; }) desc.to_plain = only_linear_reads(i);
          if constexpr (requires { desc.parts; }) {
            desc.parts = options_.parts;
            check(layer, desc);
          }
          if constexpr (requires { desc.key; }) desc.key = key_of(layer);
        },
        described);
    return described;
  }

  // Operations know no layers, so a batch that is too small for one is refused here, by its name.
  void check(const LayerSpec& layer, const ops::BatchNorm2dDesc& desc) const {
    try {
      static_cast<void>(ops::plain_plan(desc));
    } catch (const ops::BatchTooSmall& error) {
      throw ops::BatchTooSmall(
          fmt::format("network {}, layer \"{}\": {}", model_.name, layer.name, error.what()));
    }
  }

  // The key of what the layer draws at random depends on the seed and on the layer's name alone. It
  // differs from the key of the starting weights, which is the seed.
  std::uint64_t key_of(const LayerSpec& layer) const {
    return SplitMix64(options_.seed, hash_bytes(layer.name.data(), layer.name.size())).next();
  }

  // Adds the parameters and the state of the next call, which runs node i. Returns whether there
  // are parameters that are trained.
  bool add_tensors(std::size_t i, const ops::OpPlan& op, bool micro) {
    LayerParameters& layer = tensors_[nodes_[i].layer];
    layer.specs = op.parameters;
    layer.state = op.state;
    calls_of_layers_[nodes_[i].layer] = {micro, calls(micro).size()};
    return layer.trainable && !op.parameters.empty();
  }

  int add_saved(const ops::Op& op, bool micro) {
    const auto bytes = static_cast<std::int64_t>(op.plan().saved_bytes);
    if (bytes == 0) return kNoValue;
    return add_value(plan_, ops::TensorLayout::plain({bytes}, DataType::uint8), micro);
  }

  LayerType type_of(std::size_t i) const { return model_.layers[nodes_[i].layer].type; }

  bool only_linear_reads(std::size_t i) const {
    const std::vector<std::size_t>& readers = readers_[i];
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::size_t k) {
      return type_of(k) == LayerType::linear;
    });
  }

  // The layout that an operation is told to expect. It needs no reorder.
  ops::TensorLayout hint(int node, bool micro) {
    const int natural = versions_[slot(node)][0];
    const Value& value = plan_.values[static_cast<std::size_t>(natural)];
    if (value.micro && !micro) return layout_at(plan_, plain_version(node), micro);
    return layout_at(plan_, natural, micro);
  }

  // The version of a node's tensor (or the network's input) in `wanted`, reordered if necessary.
  int input_version(int node, const ops::TensorLayout& wanted, bool micro) {
    for (const int version : versions_[slot(node)]) {
      const Value& value = plan_.values[static_cast<std::size_t>(version)];
      if (value.micro != micro && !value.layout.is_plain()) continue;
      if (layout_at(plan_, version, micro) == wanted) return version;
    }
    int from = versions_[slot(node)][0];
    if (plan_.values[static_cast<std::size_t>(from)].micro && !micro) from = plain_version(node);
    return add_reorder(node, from, wanted, micro);
  }

  // The plain version of a tensor of the micro-batched part, which calls after the micro-batched
  // part may read.
  int plain_version(int node) {
    const Value& natural = plan_.values[static_cast<std::size_t>(versions_[slot(node)][0])];
    const auto plain = ops::TensorLayout::plain(natural.layout.shape, natural.layout.type);
    return input_version(node, plain, true);
  }

  int add_reorder(int node, int from, const ops::TensorLayout& to, bool micro) {
    const ops::TensorLayout from_layout = layout_at(plan_, from, micro);
    ops::Op* op = keep(backend_.make(ops::ReorderDesc{.from = from_layout, .to = to}));
    const int output = add_value(plan_, to, micro);
    const std::string source =
        node == kNetworkInput ? "input" : nodes_[static_cast<std::size_t>(node)].name;
    calls(micro).push_back({.name = source + " reordered",
                            .op = op,
                            .micro = micro,
                            .inputs = {from},
                            .output = output,
                            .saved = add_saved(*op, micro)});
    versions_[slot(node)].push_back(output);
    return output;
  }

  ParameterPlan place_parameters() {
    ParameterPlan plan = plan_parameters(tensors_);
    // The plan's order is the reverse.
    std::size_t next = plan.parameters.size(), next_frozen = plan.tensor_count(), next_state = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const auto [micro, call] = calls_of_layers_[i];
      for (std::size_t k = 0; k < tensors_[i].specs.size(); ++k) {
        calls(micro)[call].parameters.push_back(--(tensors_[i].trainable ? next : next_frozen));
      }
      for (std::size_t k = 0; k < tensors_[i].state.size(); ++k) {
        calls(micro)[call].state.push_back(next_state++);
      }
    }
    return plan;
  }

  const ModelSpec& model_;
  ops::OpBackend& backend_;
  const GraphOptions& options_;
  std::vector<FusedNode> nodes_;
  std::vector<std::vector<std::size_t>> readers_;  // of each node's tensor
  MicroBatching micro_batching_;
  Plan plan_;
  std::vector<PlannedCall> micro_calls_, rest_calls_;
  std::vector<std::vector<int>> versions_;  // values; the natural one first
  std::vector<bool> trained_;               // whether a tensor depends on parameters
  std::vector<LayerParameters> tensors_;    // of each layer
  // Each layer has one call. This tells whether it is in the micro-batched part, and its index.
  std::vector<std::pair<bool, std::size_t>> calls_of_layers_;
};

}  // namespace

LoweredNetwork lower_network(const ModelSpec& model, ops::OpBackend& backend,
                             const GraphOptions& options) {
  return Lowering(model, backend, options).run();
}

}  // namespace ddpbench::nn
