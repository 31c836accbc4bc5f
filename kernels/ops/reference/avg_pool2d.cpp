// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference avg_pool2d and adaptive_avg_pool2d. Each output is the sum over its window, in double,
// over a divisor. One addition an element of a window.
#include <algorithm>

#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

// The elements of the map that one output averages, and what their sum is divided by.
struct AveragedWindow {
  std::int64_t top, bottom, left, right;  // rows [top, bottom), columns [left, right)
  double divisor;
};

AveragedWindow window_of(const AvgPool2dDesc& desc, std::int64_t i, std::int64_t j) {
  const Window2d& w = desc.window;
  const std::int64_t top = i * w.stride_h - w.pad_h, left = j * w.stride_w - w.pad_w;
  AveragedWindow window{
      std::max<std::int64_t>(top, 0), std::min(top + w.kernel_h, desc.input.shape[2]),
      std::max<std::int64_t>(left, 0), std::min(left + w.kernel_w, desc.input.shape[3]), 0};
  const std::int64_t inside = (window.bottom - window.top) * (window.right - window.left);
  window.divisor = static_cast<double>(desc.count_include_pad ? w.kernel_h * w.kernel_w : inside);
  return window;
}

AveragedWindow window_of(const AdaptiveAvgPool2dDesc& desc, std::int64_t i, std::int64_t j) {
  const std::int64_t height = desc.input.shape[2], width = desc.input.shape[3];
  const auto begin = [](std::int64_t k, std::int64_t extent, std::int64_t outputs) {
    return k * extent / outputs;
  };
  const auto end = [](std::int64_t k, std::int64_t extent, std::int64_t outputs) {
    return ((k + 1) * extent + outputs - 1) / outputs;
  };
  AveragedWindow window{begin(i, height, desc.out_h), end(i, height, desc.out_h),
                        begin(j, width, desc.out_w), end(j, width, desc.out_w), 0};
  window.divisor = static_cast<double>((window.bottom - window.top) * (window.right - window.left));
  return window;
}

template <typename Desc>
class AveragePool : public Op {
 public:
  explicit AveragePool(const Desc& desc) : Op(plain_plan(desc)), desc_(desc) {
    const Shape& in = plan_.inputs[0].shape;
    const Shape& out = plan_.output.shape;
    planes_ = in[0] * in[1], height_ = in[2], width_ = in[3];
    out_h_ = out[2], out_w_ = out[3];
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.output);
    for_each_window([&](std::int64_t at_y, const AveragedWindow& window, std::int64_t plane) {
      double sum = 0;
      for_each_element(window, plane, [&](std::int64_t at_x) { sum += x[at_x]; });
      y[at_y] = static_cast<float>(sum / window.divisor);
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = static_cast<const float*>(args.grad_output);
    std::vector<double> dx(static_cast<std::size_t>(planes_ * height_ * width_));
    for_each_window([&](std::int64_t at_y, const AveragedWindow& window, std::int64_t plane) {
      for_each_element(window, plane, [&](std::int64_t at_x) {
        dx[static_cast<std::size_t>(at_x)] += dy[at_y] / window.divisor;
      });
    });
    std::copy(dx.begin(), dx.end(), static_cast<float*>(args.grad_inputs[0]));
  }

 private:
  // Calls body(index into y, window, plane) for each output.
  template <typename Body>
  void for_each_window(const Body& body) const {
    for (std::int64_t plane = 0; plane < planes_; ++plane)
      for (std::int64_t i = 0; i < out_h_; ++i)
        for (std::int64_t j = 0; j < out_w_; ++j)
          body((plane * out_h_ + i) * out_w_ + j, window_of(desc_, i, j), plane);
  }

  // Calls body(index into x) for each element of a window.
  template <typename Body>
  void for_each_element(const AveragedWindow& window, std::int64_t plane, const Body& body) const {
    for (std::int64_t row = window.top; row < window.bottom; ++row)
      for (std::int64_t column = window.left; column < window.right; ++column)
        body((plane * height_ + row) * width_ + column);
  }

  Desc desc_;
  std::int64_t planes_, height_, width_, out_h_, out_w_;
};

}  // namespace

std::unique_ptr<Op> make_op(const AvgPool2dDesc& desc) {
  return std::make_unique<AveragePool<AvgPool2dDesc>>(desc);
}
std::unique_ptr<Op> make_op(const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<AveragePool<AdaptiveAvgPool2dDesc>>(desc);
}

}  // namespace ddpbench::ops::reference
