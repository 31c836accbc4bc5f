// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes are planned in topological order, those of the segment at the micro-batch's size. A tensor
// has its producer's layout ("natural") and a further version for each other layout that a consumer
// wants; consumers of equal wishes share one. Where the backend runs a convolution and the pool
// that alone reads it as one operation, the tensor between the two has no version. Else, where the
// backend prefers it, the pool adds the bias of the convolution, to whose layer that still belongs.
#include "kernels/nn/plan/lowering.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/nn/plan/fusion.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/nn/plan/segment.h"

namespace ddpbench::nn {
namespace {

class Lowering {
 public:
  Lowering(const ModelSpec& model, ops::OpBackend& backend, const LoweringOptions& options)
      : model_(model),
        backend_(backend),
        training_(options.training),
        nodes_(fuse_layers(model)),
        segment_(choose_segment(model, nodes_, backend, options.batch, options.micro_batch)),
        versions_(nodes_.size() + 1),
        trained_(nodes_.size() + 1, false),
        taken_in_(nodes_.size(), false),
        bias_in_pool_(nodes_.size(), false),
        specs_(model.layers.size()),
        calls_of_(model.layers.size()) {
    plan_.batch = options.batch;
    plan_.micro_batch = segment_.micro_batch;
    ops::Shape shape = model.input_shape;
    shape.insert(shape.begin(), options.batch);
    plan_.input = add_value(plan_, ops::TensorLayout::plain(std::move(shape)), false);
    versions_[slot(kNetworkInput)] = {plan_.input};
  }

  LoweredNetwork run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) lower_node(i);
    const int last = static_cast<int>(nodes_.size()) - 1;
    ops::Shape logits{plan_.batch, model_.classes()};
    plan_.logits = input_version(last, ops::TensorLayout::plain(std::move(logits)), false);
    if (segment_.nodes == 0) plan_.micro_batch = 0;
    ParameterPlan parameters = place_parameters();
    plan_.forward = std::move(segment_calls_);
    std::move(rest_calls_.begin(), rest_calls_.end(), std::back_inserter(plan_.forward));
    return {std::move(plan_), std::move(parameters)};
  }

 private:
  // Where a node's tensor stands in versions_ and trained_; the network's input comes first.
  static std::size_t slot(int node) {
    return node == kNetworkInput ? 0 : static_cast<std::size_t>(node) + 1;
  }

  std::vector<PlannedCall>& calls(bool micro) { return micro ? segment_calls_ : rest_calls_; }

  ops::Op* keep(std::unique_ptr<ops::Op> op) {
    plan_.operations.push_back(std::move(op));
    return plan_.operations.back().get();
  }

  // What runs a node, and the node whose output it gives: itself, or the pool that it takes in.
  struct PlannedNode {
    std::unique_ptr<ops::Op> op;
    std::size_t last;
  };

  void lower_node(std::size_t i) {
    if (taken_in_[i]) return;
    const FusedNode& node = nodes_[i];
    bool micro = i < segment_.nodes;
    PlannedNode planned = plan_node(i, micro);
    if (micro && (planned.op->couples_samples() || !planned.op->accumulates_weight_gradients())) {
      segment_.nodes = i;
      micro = false;
      planned = plan_node(i, micro);
    }
    auto& [op, last] = planned;
    PlannedCall call{.name = node.name, .op = op.get(), .micro = micro};
    if (last != i) {
      taken_in_[last] = true;
      call.name += "+" + nodes_[last].name;
    }
    const std::size_t own_slot = slot(static_cast<int>(last));
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      call.inputs.push_back(input_version(node.inputs[k], op->input_layout(k), micro));
      if (trained_[slot(node.inputs[k])]) trained_[own_slot] = true;
    }
    call.output = add_value(plan_, op->output_layout(), micro);
    call.passes_gradient = model_.layers[node.layer].type == LayerType::add &&
                           op->input_layout(0) == op->output_layout() &&
                           op->input_layout(1) == op->output_layout();
    call.saved = add_saved(*op, micro);
    if (add_parameters(i, *op, micro)) trained_[own_slot] = true;
    versions_[own_slot] = {call.output};
    calls(micro).push_back(std::move(call));
    keep(std::move(op));
  }

  PlannedNode plan_node(std::size_t i, bool micro) {
    bias_in_pool_[i] = false;  // a node that the segment gave up is planned again
    if (const auto pool = pool_behind(i)) {
      auto both = backend_.conv2d_max_pool2d(conv2d_desc(i, micro), pool_desc(*pool, {}));
      if (both) return {std::move(both), *pool};
    }
    return {make_op(i, micro), i};
  }

  // The pool that alone reads a convolution.
  std::optional<std::size_t> pool_behind(std::size_t i) const {
    const std::vector<std::size_t> readers = readers_of(i);
    if (type_of(i) != LayerType::conv2d || readers.size() != 1 ||
        type_of(readers[0]) != LayerType::max_pool2d) {
      return std::nullopt;
    }
    return readers[0];
  }

  // Notes the parameters of the node's next call. Returns whether there are any.
  bool add_parameters(std::size_t i, const ops::Op& op, bool micro) {
    const bool of_convolution = i > 0 && bias_in_pool_[i - 1];
    const std::size_t layer = nodes_[of_convolution ? i - 1 : i].layer;
    const std::vector<ops::ParameterSpec> specs = op.parameters();
    for (ops::ParameterSpec spec : specs) {
      if (of_convolution) spec.fan_in = specs_[layer].front().fan_in;
      specs_[layer].push_back(std::move(spec));
      calls_of_[layer].emplace_back(micro, calls(micro).size());
    }
    return !specs.empty();
  }

  int add_saved(const ops::Op& op, bool micro) {
    const auto bytes = static_cast<std::int64_t>(op.saved_bytes());
    if (bytes == 0) return kNoValue;
    return add_value(plan_, ops::TensorLayout::plain({bytes}, DataType::uint8), micro);
  }

  std::unique_ptr<ops::Op> make_op(std::size_t i, bool micro) {
    const FusedNode& node = nodes_[i];
    const LayerSpec& layer = model_.layers[node.layer];
    const ops::TensorLayout input = hint(node.inputs[0], micro);
    switch (layer.type) {
      case LayerType::conv2d:
        return make_convolution(i, conv2d_desc(i, micro));
      case LayerType::max_pool2d:
        return backend_.max_pool2d(pool_desc(i, input));
      case LayerType::linear:
        return backend_.linear({.input = input,
                                .out_features = layer.out,
                                .bias = layer.bias,
                                .fuse_relu = node.fuse_relu,
                                .needs_grad_input = wants_input_gradient(node)});
      case LayerType::relu:
        return backend_.relu({.input = input});
      case LayerType::add:
        break;
    }
    return backend_.add({.input = input});
  }

  std::unique_ptr<ops::Op> make_convolution(std::size_t i, ops::Conv2dDesc desc) {
    bias_in_pool_[i] =
        pool_may_add_bias(i, desc) && backend_.adds_bias_in_pool(desc, pool_desc(i + 1, {}));
    if (bias_in_pool_[i]) desc.bias = false;
    return backend_.conv2d(desc);
  }

  // Only the next node, so that none between the two can end the segment.
  bool pool_may_add_bias(std::size_t i, const ops::Conv2dDesc& desc) const {
    return desc.bias && !desc.fuse_relu && pool_behind(i) == i + 1 &&
           (i < segment_.nodes) == (i + 1 < segment_.nodes);
  }

  ops::Conv2dDesc conv2d_desc(std::size_t i, bool micro) {
    const FusedNode& node = nodes_[i];
    const LayerSpec& layer = model_.layers[node.layer];
    return {.input = hint(node.inputs[0], micro),
            .out_channels = layer.out,
            .kernel_h = layer.kernel_h,
            .kernel_w = layer.kernel_w,
            .stride_h = layer.stride_h,
            .stride_w = layer.stride_w,
            .pad_h = layer.pad_h,
            .pad_w = layer.pad_w,
            .bias = layer.bias,
            .fuse_relu = node.fuse_relu,
            .needs_grad_input = wants_input_gradient(node)};
  }

  ops::MaxPool2dDesc pool_desc(std::size_t i, const ops::TensorLayout& input) const {
    const FusedNode& node = nodes_[i];
    const LayerSpec& layer = model_.layers[node.layer];
    return {.input = input,
            .kernel_h = layer.kernel_h,
            .kernel_w = layer.kernel_w,
            .stride_h = layer.stride_h,
            .stride_w = layer.stride_w,
            .pad_h = layer.pad_h,
            .pad_w = layer.pad_w,
            .fuse_relu = node.fuse_relu,
            .plain_output = only_linear_reads(i),
            .bias = i > 0 && bias_in_pool_[i - 1]};
  }

  bool wants_input_gradient(const FusedNode& node) const {
    return training_ && trained_[slot(node.inputs[0])];
  }

  LayerType type_of(std::size_t i) const { return model_.layers[nodes_[i].layer].type; }

  std::vector<std::size_t> readers_of(std::size_t i) const {
    std::vector<std::size_t> readers;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const std::vector<int>& inputs = nodes_[k].inputs;
      if (std::find(inputs.begin(), inputs.end(), static_cast<int>(i)) != inputs.end()) {
        readers.push_back(k);
      }
    }
    return readers;
  }

  bool only_linear_reads(std::size_t i) const {
    const std::vector<std::size_t> readers = readers_of(i);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::size_t k) {
      return type_of(k) == LayerType::linear;
    });
  }

  // The layout that an operation is told to expect: the one that needs no reorder.
  ops::TensorLayout hint(int node, bool micro) {
    const int natural = versions_[slot(node)][0];
    const Value& value = plan_.values[static_cast<std::size_t>(natural)];
    if (value.micro && !micro) return layout_at(plan_, plain_version(node), micro);
    return layout_at(plan_, natural, micro);
  }

  // The version of a node's tensor (or of the network's input) in `wanted`, reordered when need be.
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

  // The plain version of a tensor of the segment: what calls behind the segment may see.
  int plain_version(int node) {
    const Value& natural = plan_.values[static_cast<std::size_t>(versions_[slot(node)][0])];
    const auto plain = ops::TensorLayout::plain(natural.layout.shape, natural.layout.type);
    return input_version(node, plain, true);
  }

  int add_reorder(int node, int from, const ops::TensorLayout& to, bool micro) {
    const ops::TensorLayout from_layout = layout_at(plan_, from, micro);
    ops::Op* op = keep(backend_.reorder({.from = from_layout, .to = to}));
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
    std::vector<LayerParameters> layers;
    std::size_t count = 0;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].empty()) continue;
      layers.push_back({model_.layers[i].name, specs_[i]});
      count += specs_[i].size();
    }
    std::size_t next = count;  // the plan's order is the reverse
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      for (const auto& [micro, call] : calls_of_[i]) {
        calls(micro)[call].parameters.push_back(--next);
      }
    }
    return plan_parameters(layers);
  }

  const ModelSpec& model_;
  ops::OpBackend& backend_;
  bool training_;
  std::vector<FusedNode> nodes_;
  Segment segment_;
  Plan plan_;
  std::vector<PlannedCall> segment_calls_, rest_calls_;
  std::vector<std::vector<int>> versions_;              // values; the natural one first
  std::vector<bool> trained_;                           // whether a tensor depends on parameters
  std::vector<bool> taken_in_;                          // nodes that run in the one before
  std::vector<bool> bias_in_pool_;                      // of each node: the next one adds its bias
  std::vector<std::vector<ops::ParameterSpec>> specs_;  // of each layer
  // Of each spec the call that it is a parameter of: whether in the segment, and its index.
  std::vector<std::vector<std::pair<bool, std::size_t>>> calls_of_;
};

}  // namespace

LoweredNetwork lower_network(const ModelSpec& model, ops::OpBackend& backend,
                             const LoweringOptions& options) {
  return Lowering(model, backend, options).run();
}

}  // namespace ddpbench::nn
