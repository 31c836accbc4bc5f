// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d and max_pool2d as one operation, in two ways.
//
// A first layer of few channels runs on own kernels for both (few_channels.h): the map between the
// two, the largest of such a network, is never in memory. The autotuner compares this with the two
// apart. Where own kernels are taken untried, so is this.
//
// Where the library runs the convolution, the pool adds the bias. That saves a pass over the
// output's gradient and, where the library does not add the bias itself, a pass over the output.
// Own kernels of a convolution add the bias at no cost. Where they may run and the library turns
// out faster, the convolution keeps its bias: it was tried with it.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/cuda/kernels/pool_kernels.h"
#include "kernels/ops/cuda/library/autotuner.h"
#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/library/pair_tuning.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

class OwnConv2dMaxPool2d final : public PlannedOp {
 public:
  // `shape` includes the pool.
  OwnConv2dMaxPool2d(ContextPtr context, const Conv2dDesc& conv, const MaxPool2dDesc& pool,
                     const FewChannelShape& shape, std::string where)
      : PlannedOp(plain_plan(conv)),
        context_(std::move(context)),
        shape_(shape),
        relu_(pool.fuse_relu),
        where_(std::move(where)) {
    plan_.inputs = {same_memory_or(conv.input, nhwc_layout(conv.input.shape, shape.type))};
    // FLOPs are those of the pixels that lie in windows.
    const double pixels = static_cast<double>(element_count(plan_.output.shape));
    plan_.output =
        nhwc_layout({shape.batch, shape.out_channels, shape.out_h, shape.out_w}, shape.type);
    const auto outputs = static_cast<std::size_t>(element_count(plan_.output.shape));
    const double pooled = static_cast<double>(outputs) * shape.pool * shape.pool;
    plan_.forward_flops *= pooled / pixels;
    plan_.backward_flops *= pooled / pixels;
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    plan_.needs_output = false;
    plan_.saved_bytes = outputs;  // one byte a winner
    plan_.workspace_bytes = few_channel_workspace_bytes(shape);
    plan_.description += fmt::format(" {} (own kernel)", describe(pool));
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    FewChannelForward own{};
    own.x = args.inputs[0];
    own.w = static_cast<const float*>(args.parameters[0]);
    own.bias = has_bias() ? static_cast<const float*>(args.parameters[1]) : nullptr;
    own.y = args.output;
    own.winners = static_cast<std::uint8_t*>(args.saved);
    own.relu = relu_;
    check(few_channel_forward(shape_, own, context_->use(stream)), where_, "few_channel_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    FewChannelGradients own{};
    own.x = args.inputs[0];
    own.dy = args.grad_output;
    own.winners = static_cast<const std::uint8_t*>(args.saved);
    own.dw = static_cast<float*>(args.grad_parameters[0]);
    own.dbias = has_bias() ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    own.accumulate = args.accumulate;
    own.workspace = args.workspace;
    check(few_channel_gradients(shape_, own, context_->use(stream)), where_,
          "few_channel_gradients");
  }

 private:
  bool has_bias() const { return plan_.parameters.size() > 1; }

  ContextPtr context_;
  FewChannelShape shape_;
  bool relu_;
  std::string where_;
};

// The convolution's shape with the pool in it, where there are kernels for both.
std::optional<FewChannelShape> pooled_shape(const ConvolutionShape& conv,
                                            const MaxPool2dDesc& pool) {
  constexpr std::uint32_t kPool = 2;
  // A ReLU between the two would already be the pool's.
  const bool fits =
      conv.few_channels && !conv.needs_grad_input && !conv.relu && pool.window.is_tiling(kPool);
  if (!fits) return std::nullopt;
  FewChannelShape shape = *conv.few_channels;
  shape.pool = kPool;
  shape.out_h /= kPool, shape.out_w /= kPool;
  const bool has_output = shape.out_h > 0 && shape.out_w > 0;  // else the pool reports the error
  return has_output && has_few_channel_kernels(shape) ? std::optional(shape) : std::nullopt;
}

bool is_faster(const ContextPtr& context, Op& both, const Conv2dDesc& conv,
               const MaxPool2dDesc& pool, const std::string& where) {
  const std::unique_ptr<Op> first = make_op(context, conv);
  MaxPool2dDesc behind = pool;
  behind.input = first->output_layout();
  const std::unique_ptr<Op> second = make_op(context, behind);
  return is_faster_in_one(*context, both, *first, *second, where);
}

// Whether own kernels for both run, and not the two apart.
bool is_chosen(const ContextPtr& context, Op& both, const Conv2dDesc& conv,
               const MaxPool2dDesc& pool, const std::string& key, const std::string& where) {
  const CudaBackendOptions& options = context->options;
  if (options.deterministic || options.convolutions == ConvolutionKernels::own) return true;
  const auto choice_of = [](bool own) {
    return std::optional(AlgorithmChoice{.algorithm = own ? kOwnKernel : 0});
  };
  const auto choice =
      autotune(context->algorithms, key,
               {.has = [](const AlgorithmChoice&) { return true; },
                .fastest = [&] { return choice_of(is_faster(context, both, conv, pool, where)); },
                .untried = [&] { return choice_of(true); }});
  return is_own(*choice);
}

std::unique_ptr<Op> make_on_own_kernels(const ContextPtr& context, const Conv2dDesc& conv,
                                        const MaxPool2dDesc& pool) {
  if (context->options.convolutions == ConvolutionKernels::library) return nullptr;
  const std::string where =
      fmt::format("{} {} on {}", describe(conv), describe(pool), to_string(conv.input.shape));
  const ConvolutionShape shape(*context, conv, where);
  const std::optional<FewChannelShape> pooled = pooled_shape(shape, pool);
  if (!pooled) return nullptr;
  element_index(shape.x_count, where);
  element_index(shape.y_count, where);
  auto both = std::make_unique<OwnConv2dMaxPool2d>(context, conv, pool, *pooled, where);
  const std::string key =
      fmt::format("{}|{}|pool kernels {}", shape.key, describe(pool), kPoolKernels);
  if (!is_chosen(context, *both, conv, pool, key, where)) return nullptr;
  return both;
}

// The map between the two and its gradient are part of the workspace.
class BiasInPool final : public PlannedOp {
 public:
  BiasInPool(const ContextPtr& context, const Conv2dDesc& conv, const MaxPool2dDesc& pool) {
    Conv2dDesc without_bias = conv;
    without_bias.bias = false;
    conv_ = make_op(context, without_bias);
    MaxPool2dDesc behind = pool;
    behind.input = conv_->output_layout();
    pool_ = make_max_pool2d(context, behind, true);
    plan_ = plain_plan(conv);
    plan_.description = conv_->description() + ", " + pool_->description();
    plan_.inputs = {conv_->input_layout(0)};
    plan_.output = pool_->output_layout();
    plan_.parameters[0].layout = conv_->parameters()[0].layout;
    plan_.parameters[1].layout = pool_->parameters()[0].layout;
    plan_.needed_inputs = conv_->backward_needs_input(0) ? 1 : 0;
    plan_.needs_output = pool_->backward_needs_output();
    plan_.reads_bf16_weights = conv_->reads_bf16_weights();
    plan_.saved_bytes = pool_->saved_bytes();
    WorkspaceLayout workspace;
    workspace.add(conv_->output_layout().bytes);
    rest_ = workspace.add(std::max(conv_->workspace_bytes(), pool_->workspace_bytes()));
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

std::unique_ptr<Op> make_conv2d_max_pool2d(const ContextPtr& context, const Conv2dDesc& conv,
                                           const MaxPool2dDesc& pool) {
  output_shape(conv);
  if (auto own = make_on_own_kernels(context, conv, pool)) return own;
  if (!bias_is_better_in_pool(*context, conv, pool)) return nullptr;
  return std::make_unique<BiasInPool>(context, conv, pool);
}

}  // namespace ddpbench::ops::cuda
