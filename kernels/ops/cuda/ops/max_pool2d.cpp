// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d on the own kernels, over plain or channels-last maps of either type, which the output
// keeps to: linear layers here read both.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/pool_kernels.h"
#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

ImageStrides strides_of(const TensorLayout& layout) {
  const auto extent = [&](std::size_t i) { return static_cast<std::uint32_t>(layout.shape[i]); };
  const std::uint32_t channels = extent(1), height = extent(2), width = extent(3);
  if (is_nhwc(layout)) return {height * width * channels, 1, width * channels, channels};
  return {channels * height * width, height * width, width, 1};
}

std::uint32_t narrow(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// Channels and window; the rest is added where the input is known.
PoolGeometry window_of(const MaxPool2dDesc& desc, std::int64_t channels, DataType type,
                       bool channels_last) {
  PoolGeometry geometry;
  geometry.channels = narrow(channels);
  geometry.kernel_h = narrow(desc.kernel_h), geometry.kernel_w = narrow(desc.kernel_w);
  geometry.stride_h = narrow(desc.stride_h), geometry.stride_w = narrow(desc.stride_w);
  geometry.pad_h = narrow(desc.pad_h), geometry.pad_w = narrow(desc.pad_w);
  geometry.channels_last = channels_last;
  geometry.relu = desc.fuse_relu;
  geometry.type = type;
  return geometry;
}

class MaxPool2d final : public PlannedOp {
 public:
  MaxPool2d(ContextPtr context, const MaxPool2dDesc& desc, std::string where)
      : PlannedOp(plain_plan(desc)),
        context_(std::move(context)),
        where_(std::move(where)),
        has_bias_(desc.bias) {
    plan_.inputs = {is_nhwc(desc.input) ? desc.input
                                        : TensorLayout::plain(desc.input.shape, desc.input.type)};
    plan_.output = is_nhwc(desc.input) ? nhwc_layout(plan_.output.shape, desc.input.type)
                                       : TensorLayout::plain(plan_.output.shape, desc.input.type);
    element_index(element_count(desc.input.shape), where_);
    const std::uint32_t outputs = element_index(element_count(plan_.output.shape), where_);
    describe_geometry(desc);
    const std::uint32_t bytes = winner_bytes(geometry_.kernel_h, geometry_.kernel_w);
    if (bytes == 0) {
      throw DeviceError(fmt::format("{}: windows of {} x {} elements are too large", where_,
                                    desc.kernel_h, desc.kernel_w));
    }
    plan_.saved_bytes = std::size_t{outputs} * bytes;
    plan_.description += " (own kernel)";
    if (has_bias_) plan_bias();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const auto* const bias = has_bias_ ? static_cast<const float*>(args.parameters[0]) : nullptr;
    check(pool_forward(geometry_,
                       {.x = args.inputs[0], .bias = bias, .y = args.output, .winners = args.saved},
                       ddpbench::cuda::native_stream(stream)),
          where_, "pool_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    PoolBackwardCall call{};
    call.dy = args.grad_output;
    call.winners = args.saved;
    call.dx = args.grad_inputs.empty() ? nullptr : args.grad_inputs[0];
    if (has_bias_) call.bias_gradient = static_cast<float*>(args.grad_parameters[0]);
    call.accumulate = args.accumulate;
    call.workspace = args.workspace;
    if (call.dx == nullptr && !has_bias_) return;
    check(pool_backward(geometry_, call, ddpbench::cuda::native_stream(stream)), where_,
          "pool_backward");
  }

 private:
  void describe_geometry(const MaxPool2dDesc& desc) {
    const Shape& in = desc.input.shape;
    const Shape& out = plan_.output.shape;
    geometry_ = window_of(desc, in[1], desc.input.type, is_nhwc(plan_.inputs[0]));
    geometry_.batch = narrow(in[0]);
    geometry_.in_h = narrow(in[2]), geometry_.in_w = narrow(in[3]);
    geometry_.out_h = narrow(out[2]), geometry_.out_w = narrow(out[3]);
    geometry_.input = strides_of(plan_.inputs[0]);
    geometry_.output = strides_of(plan_.output);
  }

  void plan_bias() {
    if (!may_add_bias(geometry_)) {
      throw DeviceError(fmt::format(
          "{}: a bias is added to windows of 2 x 2 side by side over whole vectors of channels, "
          "channels last, only",
          where_));
    }
    geometry_.multiprocessors = multiprocessors_of(*context_, where_);
    plan_.workspace_bytes = pool_bias_workspace_bytes(geometry_);
  }

  ContextPtr context_;
  std::string where_;
  bool has_bias_;
  PoolGeometry geometry_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc) {
  output_shape(desc);
  std::string where = fmt::format("{} on {}", describe(desc), to_string(desc.input.shape));
  return std::make_unique<MaxPool2d>(std::move(context), desc, std::move(where));
}

// Own kernels of a convolution add it at no cost, too. Where they may run and the library's turn
// out faster, the bias stays with the library's: the convolution was tried with it.
bool adds_bias_in_pool(const Context& context, const Conv2dDesc& conv, const MaxPool2dDesc& pool) {
  return !may_run_own_kernels(context, conv) &&
         may_add_bias(window_of(pool, conv.out_channels, context.activation_type(), true));
}

}  // namespace ddpbench::ops::cuda
