// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d on the own kernels, over plain or channels-last maps of either type, which the output
// keeps to: linear layers here read both.
#include "kernels/ops/cuda/cuda_ops.h"
#include "kernels/ops/cuda/layout.h"
#include "kernels/ops/cuda/pool_kernels.h"
#include "kernels/ops/planned_op.h"
#include "kernels/runtime/error.h"

namespace ddpbench::ops::cuda {
namespace {

ImageStrides strides_of(const TensorLayout& layout) {
  const auto extent = [&](std::size_t i) { return static_cast<std::uint32_t>(layout.shape[i]); };
  const std::uint32_t channels = extent(1), height = extent(2), width = extent(3);
  if (is_nhwc(layout)) return {height * width * channels, 1, width * channels, channels};
  return {channels * height * width, height * width, width, 1};
}

class MaxPool2d final : public PlannedOp {
 public:
  MaxPool2d(ContextPtr context, const MaxPool2dDesc& desc, std::string where)
      : PlannedOp(plain_plan(desc)), context_(std::move(context)), where_(std::move(where)) {
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
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    check(pool_forward(geometry_, args.inputs[0], args.output, args.saved,
                       ddpbench::cuda::native_stream(stream)),
          where_, "pool_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    check(pool_backward(geometry_, args.grad_output, args.saved, args.grad_inputs[0],
                        ddpbench::cuda::native_stream(stream)),
          where_, "pool_backward");
  }

 private:
  void describe_geometry(const MaxPool2dDesc& desc) {
    const Shape& in = desc.input.shape;
    const Shape& out = plan_.output.shape;
    const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    geometry_.batch = narrow(in[0]), geometry_.channels = narrow(in[1]);
    geometry_.in_h = narrow(in[2]), geometry_.in_w = narrow(in[3]);
    geometry_.out_h = narrow(out[2]), geometry_.out_w = narrow(out[3]);
    geometry_.kernel_h = narrow(desc.kernel_h), geometry_.kernel_w = narrow(desc.kernel_w);
    geometry_.stride_h = narrow(desc.stride_h), geometry_.stride_w = narrow(desc.stride_w);
    geometry_.pad_h = narrow(desc.pad_h), geometry_.pad_w = narrow(desc.pad_w);
    geometry_.input = strides_of(plan_.inputs[0]);
    geometry_.output = strides_of(plan_.output);
    geometry_.channels_last = is_nhwc(plan_.inputs[0]);
    geometry_.relu = desc.fuse_relu;
    geometry_.type = desc.input.type;
  }

  ContextPtr context_;
  std::string where_;
  PoolGeometry geometry_;
};

}  // namespace

std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc) {
  output_shape(desc);
  std::string where = fmt::format("{} on {}", describe(desc), to_string(desc.input.shape));
  return std::make_unique<MaxPool2d>(std::move(context), desc, std::move(where));
}

}  // namespace ddpbench::ops::cuda
