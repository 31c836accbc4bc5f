// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d, channels last, alone and with the max_pool2d behind it as one operation. 2 * batch * out
// * oh * ow * in * kh * kw FLOPs forward, the same for each gradient; bytes are those of input,
// output and weights, once each. Each pass is tuned separately (tune_convolution).
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/ops/cuda/library/convolution_pass.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

class Conv2d final : public Op {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc, const std::string& where)
      : Op(plain_plan(desc)), context_(std::move(context)), shape_(*context_, desc, where) {
    plan_.inputs = {same_memory_or(desc.input, nhwc_layout(desc.input.shape, shape_.type))};
    plan_.output = nhwc_layout(plan_.output.shape, shape_.type);
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    element_index(shape_.y_count, where);
    element_index(shape_.x_count, where);
    tune_passes();
    plan_.reads_bf16_weights = shape_.type == DataType::bf16 && (data_ || !forward_->is_own());
    // FilterPass leaves the rectified gradient in its part.
    WorkspaceLayout backward;
    backward.add(filter_->workspace_bytes());
    if (data_) data_workspace_ = backward.add(data_->workspace_bytes());
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), backward.bytes());
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    forward_->run(args, context_->use(stream));
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const void* const dy = filter_->run(args, native);
    if (!data_ || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    data_->run(args, dy, static_cast<std::byte*>(args.workspace) + data_workspace_);
  }

 private:
  void tune_passes() {
    const AlgorithmChoice forward = tune_convolution(*context_, shape_, ConvolutionPass::forward);
    const AlgorithmChoice filter =
        tune_convolution(*context_, shape_, ConvolutionPass::backward_filter);
    forward_.emplace(*context_, shape_, forward);
    filter_.emplace(*context_, shape_, filter);
    if (shape_.needs_grad_input) {
      data_.emplace(*context_, shape_,
                    tune_convolution(*context_, shape_, ConvolutionPass::backward_data));
    }
    const auto name = [&](const AlgorithmChoice& choice) {
      if (is_own(choice)) return std::string("own kernel");
      return fmt::format("cudnn {} algorithm {}{}", precision_name(context_->options.precision),
                         choice.algorithm, choice.fused ? " fused" : "");
    };
    plan_.description += fmt::format(" ({}", name(forward));
    if (is_own(forward) != is_own(filter)) {
      plan_.description += fmt::format(", weight gradient {}", name(filter));
    }
    plan_.description += ")";
  }

  ContextPtr context_;
  ConvolutionShape shape_;
  std::optional<ForwardPass> forward_;
  std::optional<FilterPass> filter_;
  std::optional<DataPass> data_;
  std::size_t data_workspace_ = 0;
};

// The pool adds the bias of a convolution of the library. That saves a pass over the output's
// gradient and, where the library does not add the bias itself, a pass over the output. Own kernels
// of a convolution add the bias at no cost. Where they may run and the library turns out faster,
// the convolution keeps its bias: it was tried with it. The map between the two and its gradient
// are part of the workspace.
class BiasInPool final : public Op {
 public:
  BiasInPool(const ContextPtr& context, const Conv2dDesc& conv, const MaxPool2dDesc& pool) {
    Conv2dDesc without_bias = conv;
    without_bias.bias = false;
    conv_ = make_op(context, without_bias);
    MaxPool2dDesc behind = pool;
    behind.input = conv_->plan().output;
    pool_ = make_max_pool2d(context, behind, true);
    plan_ = plain_plan(conv);
    plan_.description = conv_->plan().description + ", " + pool_->plan().description;
    plan_.inputs = {conv_->plan().inputs[0]};
    plan_.output = pool_->plan().output;
    plan_.parameters[0].layout = conv_->plan().parameters[0].layout;
    plan_.parameters[1].layout = pool_->plan().parameters[0].layout;
    plan_.needed_inputs = conv_->plan().needed_inputs;
    plan_.needs_output = pool_->plan().needs_output;
    plan_.reads_bf16_weights = conv_->plan().reads_bf16_weights;
    plan_.saved_bytes = pool_->plan().saved_bytes;
    WorkspaceLayout workspace;
    workspace.add(conv_->plan().output.bytes);
    rest_ = workspace.add(std::max(conv_->plan().workspace_bytes, pool_->plan().workspace_bytes));
    plan_.workspace_bytes = workspace.bytes();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    void* const map = args.workspace;
    ForwardArgs first = args;
    first.output = map;
    first.parameters = args.parameters.first(1);
    first.bf16_weights = first_of(args.bf16_weights);
    first.saved = nullptr;
    first.workspace = rest_of(args.workspace);
    conv_->forward(stream, first);
    ForwardArgs second = args;
    const std::array<const void*, 1> maps = {map};
    second.inputs = maps;
    second.parameters = args.parameters.last(1);
    second.workspace = rest_of(args.workspace);
    pool_->forward(stream, second);
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    void* const map_gradient = args.workspace;
    BackwardArgs second = args;
    const std::array<void*, 1> map_gradients = {map_gradient};
    second.inputs = {};
    second.grad_inputs = map_gradients;
    second.parameters = args.parameters.last(1);
    second.grad_parameters = args.grad_parameters.last(1);
    second.workspace = rest_of(args.workspace);
    pool_->backward(stream, second);
    BackwardArgs first = args;
    first.output = nullptr;
    first.grad_output = map_gradient;
    first.parameters = args.parameters.first(1);
    first.bf16_weights = first_of(args.bf16_weights);
    first.grad_parameters = args.grad_parameters.first(1);
    first.workspace = rest_of(args.workspace);
    conv_->backward(stream, first);
  }

 private:
  static std::span<const void* const> first_of(std::span<const void* const> weights) {
    return weights.first(std::min<std::size_t>(weights.size(), 1));
  }
  void* rest_of(void* workspace) const { return static_cast<std::byte*>(workspace) + rest_; }

  std::unique_ptr<Op> conv_, pool_;
  std::size_t rest_ = 0;  // where the workspaces of the two begin
};

bool bias_is_better_in_pool(const Context& context, const Conv2dDesc& conv,
                            const MaxPool2dDesc& pool) {
  return conv.bias && !conv.fuse_relu && !may_run_own_kernels(context, conv) &&
         pool_adds_bias(context, pool, conv.out_channels);
}

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc) {
  return std::make_unique<Conv2d>(std::move(context), desc, where_of(desc));
}

std::unique_ptr<Op> make_conv2d_max_pool2d(const ContextPtr& context, const Conv2dDesc& conv,
                                           const MaxPool2dDesc& pool) {
  output_shape(conv);
  if (!bias_is_better_in_pool(*context, conv, pool)) return nullptr;
  return std::make_unique<BiasInPool>(context, conv, pool);
}

}  // namespace ddpbench::ops::cuda
