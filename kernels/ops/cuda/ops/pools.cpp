// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d, avg_pool2d, adaptive_avg_pool2d and upsample_bilinear on the own kernels, over plain
// or channels-last maps of either type. The output keeps the input's layout: linear layers here
// read both.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/pool_kernels.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

// REQUIRES: a plain or channels-last layout of [batch, channels, height, width].
ImageStrides image_strides(const TensorLayout& layout) {
  const auto extent = [&](std::size_t i) { return static_cast<std::uint32_t>(layout.shape[i]); };
  const std::uint32_t channels = extent(1), height = extent(2), width = extent(3);
  if (is_nhwc(layout)) return {height * width * channels, 1, width * channels, channels};
  return {channels * height * width, height * width, width, 1};
}

// ---- max_pool2d ----

std::uint32_t narrow(std::int64_t value) { return static_cast<std::uint32_t>(value); }

KernelWindow2d kernel_window(const Window2d& w) {
  return {narrow(w.kernel_h), narrow(w.kernel_w), narrow(w.stride_h),
          narrow(w.stride_w), narrow(w.pad_h),    narrow(w.pad_w),
          narrow(w.more_h),   narrow(w.more_w),   w.ceil_mode};
}

// The input's layout and the output's, which keeps it.
void keep_layout(const TensorLayout& input, OpPlan& plan) {
  const bool channels_last = is_nhwc(input);
  plan.inputs = {channels_last ? input : TensorLayout::plain(input.shape, input.type)};
  plan.output = channels_last ? nhwc_layout(plan.output.shape, input.type)
                              : TensorLayout::plain(plan.output.shape, input.type);
}

class MaxPool2d final : public Op {
 public:
  explicit MaxPool2d(const MaxPool2dDesc& desc) : Op(plain_plan(desc)), where_(where_of(desc)) {
    keep_layout(desc.input, plan_);
    element_index(element_count(desc.input.shape), where_);
    const Shape& in = desc.input.shape;
    const Shape& out = plan_.output.shape;
    const std::uint32_t outputs = element_index(element_count(out), where_);
    geometry_ = {.batch = narrow(in[0]),
                 .channels = narrow(in[1]),
                 .in_h = narrow(in[2]),
                 .in_w = narrow(in[3]),
                 .out_h = narrow(out[2]),
                 .out_w = narrow(out[3]),
                 .window = kernel_window(desc.window),
                 .input = image_strides(plan_.inputs[0]),
                 .output = image_strides(plan_.output),
                 .channels_last = is_nhwc(plan_.inputs[0]),
                 .relu = desc.fuse_relu,
                 .type = desc.input.type};
    const std::uint32_t bytes = winner_bytes(geometry_.window.kernel_h, geometry_.window.kernel_w);
    if (bytes == 0) {
      throw DeviceError(fmt::format("{}: windows of {} x {} elements are too large", where_,
                                    desc.window.kernel_h, desc.window.kernel_w));
    }
    plan_.saved_bytes = std::size_t{outputs} * bytes;
    plan_.description += " (own kernel)";
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    check(pool_forward(geometry_, args.inputs[0], args.output, args.saved, native_stream(stream)),
          where_, "pool_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    check(pool_backward(geometry_, args.grad_output, args.saved, args.grad_inputs[0],
                        native_stream(stream)),
          where_, "pool_backward");
  }

 private:
  std::string where_;
  PoolGeometry geometry_;
};

// ---- avg_pool2d, adaptive_avg_pool2d, upsample_bilinear ----

template <typename Axis>
class WindowSum final : public Op {
 public:
  template <typename Desc>
  explicit WindowSum(const Desc& desc) : Op(plain_plan(desc)), where_(where_of(desc)) {
    keep_layout(desc.input, plan_);
    const auto index = [&](std::int64_t value) { return element_index(value, where_); };
    const Shape& in = plan_.inputs[0].shape;
    const Shape& out = plan_.output.shape;
    index(element_count(in)), index(element_count(out));
    geometry_.batch = index(in[0]), geometry_.channels = index(in[1]);
    geometry_.rows = axes_of(desc)[0], geometry_.columns = axes_of(desc)[1];
    geometry_.input = image_strides(plan_.inputs[0]),
    geometry_.output = image_strides(plan_.output);
    geometry_.channels_last = is_nhwc(desc.input);
    geometry_.type = desc.input.type;
    plan_.description += " (own kernel)";
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    check(window_sum_forward(geometry_, args.inputs[0], args.output, native_stream(stream)), where_,
          "window_sum_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    check(window_sum_backward(geometry_, args.grad_output, args.grad_inputs[0],
                              native_stream(stream)),
          where_, "window_sum_backward");
  }

 private:
  std::string where_;
  WindowGeometry<Axis> geometry_;
};

}  // namespace

std::unique_ptr<Op> make_op(const ContextPtr&, const MaxPool2dDesc& desc) {
  return std::make_unique<MaxPool2d>(desc);
}
std::unique_ptr<Op> make_op(const ContextPtr&, const AvgPool2dDesc& desc) {
  return std::make_unique<WindowSum<AverageAxis>>(desc);
}
std::unique_ptr<Op> make_op(const ContextPtr&, const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<WindowSum<AverageAxis>>(desc);
}
std::unique_ptr<Op> make_op(const ContextPtr&, const UpsampleBilinearDesc& desc) {
  return std::make_unique<WindowSum<BilinearAxis>>(desc);
}

}  // namespace ddpbench::ops::cuda
