// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d and adaptive_avg_pool2d on one own kernel, over plain or channels-last maps of either
// type. The output keeps the input's layout.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/average_pool.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/cuda/ops/image_strides.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

void set_windows(const AvgPool2dDesc& desc, const std::string& where, AverageGeometry& geometry) {
  const auto index = [&](std::int64_t value) { return element_index(value, where); };
  const Window2d& w = desc.window;
  geometry.rows.kernel = index(w.kernel_h), geometry.columns.kernel = index(w.kernel_w);
  geometry.rows.stride = index(w.stride_h), geometry.columns.stride = index(w.stride_w);
  geometry.rows.pad = index(w.pad_h), geometry.columns.pad = index(w.pad_w);
  if (desc.count_include_pad) geometry.divisor = index(w.kernel_h * w.kernel_w);
}

void set_windows(const AdaptiveAvgPool2dDesc&, const std::string&, AverageGeometry&) {}

class AveragePool final : public PlannedOp {
 public:
  template <typename Desc>
  AveragePool(ContextPtr context, const Desc& desc)
      : PlannedOp(plain_plan(desc)),
        context_(std::move(context)),
        where_(fmt::format("{} on {}", describe(desc), to_string(desc.input.shape))) {
    const bool channels_last = is_nhwc(desc.input);
    const DataType type = desc.input.type;
    plan_.inputs = {channels_last ? desc.input : TensorLayout::plain(desc.input.shape, type)};
    plan_.output = channels_last ? nhwc_layout(plan_.output.shape, type)
                                 : TensorLayout::plain(plan_.output.shape, type);
    const auto index = [&](std::int64_t value) { return element_index(value, where_); };
    const Shape& in = plan_.inputs[0].shape;
    const Shape& out = plan_.output.shape;
    index(element_count(in)), index(element_count(out));
    geometry_.batch = index(in[0]), geometry_.channels = index(in[1]);
    geometry_.rows.extent = index(in[2]), geometry_.columns.extent = index(in[3]);
    geometry_.rows.outputs = index(out[2]), geometry_.columns.outputs = index(out[3]);
    geometry_.input = image_strides(plan_.inputs[0]),
    geometry_.output = image_strides(plan_.output);
    geometry_.channels_last = channels_last;
    geometry_.type = type;
    set_windows(desc, where_, geometry_);
    plan_.description += " (own kernel)";
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    check(average_forward(geometry_, args.inputs[0], args.output,
                          ddpbench::cuda::native_stream(stream)),
          where_, "average_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    check(average_backward(geometry_, args.grad_output, args.grad_inputs[0],
                           ddpbench::cuda::native_stream(stream)),
          where_, "average_backward");
  }

 private:
  ContextPtr context_;
  std::string where_;
  AverageGeometry geometry_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const AvgPool2dDesc& desc) {
  output_shape(desc);
  return std::make_unique<AveragePool>(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const AdaptiveAvgPool2dDesc& desc) {
  output_shape(desc);
  return std::make_unique<AveragePool>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
