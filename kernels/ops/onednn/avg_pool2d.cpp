// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d and adaptive_avg_pool2d on the own kernels (kernels/ops/cpu/average_pool.h), over the
// layout that the input has, in fp32. oneDNN has no adaptive pool whose windows differ in size.
#include "kernels/ops/cpu/average_pool.h"

#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/onednn/layout.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {
namespace {

void set_windows(const AvgPool2dDesc& desc, const Shape& out, cpu::AverageGeometry& geometry) {
  const Window2d& w = desc.window;
  geometry.rows = cpu::window_ranges(geometry.height, out[2], w.kernel_h, w.stride_h, w.pad_h);
  geometry.columns = cpu::window_ranges(geometry.width, out[3], w.kernel_w, w.stride_w, w.pad_w);
  geometry.divisor = desc.count_include_pad ? w.kernel_h * w.kernel_w : 0;
}

void set_windows(const AdaptiveAvgPool2dDesc&, const Shape& out, cpu::AverageGeometry& geometry) {
  geometry.rows = cpu::adaptive_ranges(geometry.height, out[2]);
  geometry.columns = cpu::adaptive_ranges(geometry.width, out[3]);
}

class AveragePool : public Op {
 public:
  template <typename Desc>
  AveragePool(ContextPtr context, const Desc& desc)
      : Op(plain_plan(desc)), context_(std::move(context)) {
    const Shape in = desc.input.shape, out = plan_.output.shape;
    std::int64_t block = channel_block(to_desc(desc.input));
    if (block > 0) plan_.inputs = {with_type(desc.input, DataType::fp32)};
    if (block == 0) block = 1;  // not a layout of these kernels: read it plain
    geometry_ = {.height = in[2], .width = in[3], .inner = block};
    set_windows(desc, out, geometry_);
    planes_ = in[0] * ceil_div(in[1], block);
    // Whole blocks of one pixel lie as plain channels do.
    const bool is_plain = out[2] * out[3] == 1 && in[1] % block == 0;
    if (!is_plain) plan_.output = to_layout(image_desc(out, block));
    plan_.description += fmt::format(" ({})", to_string(context_->simd));
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.output);
    for_each_plane([&](std::int64_t plane) {
      cpu::average_forward(context_->simd, geometry_, x + plane * geometry_.input_elements(),
                           y + plane * geometry_.output_elements());
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = static_cast<const float*>(args.grad_output);
    auto* dx = static_cast<float*>(args.grad_inputs[0]);
    for_each_plane([&](std::int64_t plane) {
      cpu::average_backward(context_->simd, geometry_, dy + plane * geometry_.output_elements(),
                            dx + plane * geometry_.input_elements());
    });
  }

 private:
  // A plane is one sample's group of `inner` channels, the kernels' unit of work.
  template <typename Body>
  void for_each_plane(const Body& body) const {
    const int threads =
        planes_ * geometry_.input_elements() < cpu::kMinParallelElements ? 1 : context_->threads;
    cpu::parallel_shares(threads, planes_, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
    });
  }

  ContextPtr context_;
  cpu::AverageGeometry geometry_;
  std::int64_t planes_ = 0;
};

template <typename Desc>
std::unique_ptr<Op> make_average(ContextPtr context, const Desc& desc) {
  output_shape(desc);
  const Context& c = *context;
  return plan_with_onednn(c, fmt::format("{} on {}", describe(desc), to_string(desc.input.shape)),
                          [&] { return std::make_unique<AveragePool>(std::move(context), desc); });
}

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const AvgPool2dDesc& desc) {
  return make_average(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const AdaptiveAvgPool2dDesc& desc) {
  return make_average(std::move(context), desc);
}

}  // namespace ddpbench::ops::onednn
