// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference conv2d and linear:
//   y[n,o,i,j] = bias[o] + sum_{c,p,q} x[n, g(o) + c, i*sh-ph+p*dh, j*sw-pw+q*dw] w[o,c,p,q],
// where g(o) is the first input channel of o's group, and c counts the channels of a group.
// 2 * batch * out * oh * ow * (in / groups) * kh * kw FLOPs forward, the same for each gradient. A
// linear layer is a convolution of maps of one pixel.
#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Conv2d : public Op {
 public:
  Conv2d(OpPlan plan, const Conv2dDesc& desc) : Op(std::move(plan)), desc_(desc) {
    const Shape& in = desc.input.shape;
    const Shape out = output_shape(desc);
    batch_ = in[0], in_ = in[1], height_ = in[2], width_ = in[3];
    out_ = out[1], out_h_ = out[2], out_w_ = out[3];
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    const auto* w = floats(args.parameters[0]);
    const auto* bias = desc_.bias ? floats(args.parameters[1]) : nullptr;
    auto* y = floats(args.output);
    for_each_output([&](std::int64_t n, std::int64_t o, std::int64_t i, std::int64_t j) {
      double sum = bias ? bias[o] : 0;
      for_each_tap(n, o, i, j, [&](std::int64_t at_x, std::int64_t at_w) {
        sum += static_cast<double>(x[at_x]) * w[at_w];
      });
      const auto value = static_cast<float>(sum);
      y[output_index(n, o, i, j)] = desc_.fuse_relu ? relu(value) : value;
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    const auto* w = floats(args.parameters[0]);
    const std::vector<float> dy = masked_gradient(args);
    const bool want_dx = desc_.needs_grad_input && !args.grad_inputs.empty() && args.grad_inputs[0];
    std::vector<double> dx(want_dx ? static_cast<std::size_t>(element_count(desc_.input.shape))
                                   : 0);
    std::vector<double> dw(static_cast<std::size_t>(element_count(plan_.parameters[0].shape)));
    std::vector<double> db(static_cast<std::size_t>(out_));
    for_each_output([&](std::int64_t n, std::int64_t o, std::int64_t i, std::int64_t j) {
      const double g = dy[static_cast<std::size_t>(output_index(n, o, i, j))];
      db[static_cast<std::size_t>(o)] += g;
      for_each_tap(n, o, i, j, [&](std::int64_t at_x, std::int64_t at_w) {
        dw[static_cast<std::size_t>(at_w)] += g * x[at_x];
        if (want_dx) dx[static_cast<std::size_t>(at_x)] += g * w[at_w];
      });
    });
    if (want_dx) store(dx, args.grad_inputs[0], false);
    store(dw, args.grad_parameters[0], args.accumulate);
    if (desc_.bias) store(db, args.grad_parameters[1], args.accumulate);
  }

 private:
  std::int64_t output_index(std::int64_t n, std::int64_t o, std::int64_t i, std::int64_t j) const {
    return ((n * out_ + o) * out_h_ + i) * out_w_ + j;
  }

  template <typename Body>
  void for_each_output(const Body& body) const {
    for (std::int64_t n = 0; n < batch_; ++n)
      for (std::int64_t o = 0; o < out_; ++o)
        for (std::int64_t i = 0; i < out_h_; ++i)
          for (std::int64_t j = 0; j < out_w_; ++j) body(n, o, i, j);
  }

  // Calls body(index into x, index into w) for every product in the sum of output (n, o, i, j).
  template <typename Body>
  void for_each_tap(std::int64_t n, std::int64_t o, std::int64_t i, std::int64_t j,
                    const Body& body) const {
    const std::int64_t group_in = in_ / desc_.groups;
    const std::int64_t first = o / (out_ / desc_.groups) * group_in;
    for (std::int64_t c = 0; c < group_in; ++c)
      for (std::int64_t p = 0; p < desc_.window.kernel_h; ++p)
        for (std::int64_t q = 0; q < desc_.window.kernel_w; ++q) {
          const std::int64_t row =
              i * desc_.window.stride_h - desc_.window.pad_h + p * desc_.dilation.h;
          const std::int64_t column =
              j * desc_.window.stride_w - desc_.window.pad_w + q * desc_.dilation.w;
          if (row < 0 || row >= height_ || column < 0 || column >= width_) continue;
          body(((n * in_ + first + c) * height_ + row) * width_ + column,
               ((o * group_in + c) * desc_.window.kernel_h + p) * desc_.window.kernel_w + q);
        }
  }

  std::vector<float> masked_gradient(const BackwardArgs& args) const {
    const auto* dy = floats(args.grad_output);
    const auto* y = floats(args.output);
    std::vector<float> masked(dy, dy + element_count(plan_.output.shape));
    if (desc_.fuse_relu)
      for (std::size_t k = 0; k < masked.size(); ++k) masked[k] = relu_gradient(y[k], masked[k]);
    return masked;
  }

  static void store(const std::vector<double>& from, void* to, bool accumulate) {
    auto* values = floats(to);
    if (values == nullptr) return;
    for (std::size_t k = 0; k < from.size(); ++k) put(values + k, from[k], accumulate);
  }

  Conv2dDesc desc_;
  std::int64_t batch_, in_, height_, width_, out_, out_h_, out_w_;
};

}  // namespace

std::unique_ptr<Op> make_op(const Conv2dDesc& desc) {
  return std::make_unique<Conv2d>(plain_plan(desc), desc);
}

std::unique_ptr<Op> make_op(const LinearDesc& desc) {
  OpPlan plan = plain_plan(desc);
  const Shape maps = {desc.input.shape[0], plan.parameters[0].fan_in, 1, 1};
  const Conv2dDesc conv{.input = TensorLayout::plain(maps),
                        .out_channels = desc.out_features,
                        .window = square_window(1),
                        .bias = desc.bias,
                        .fuse_relu = desc.fuse_relu,
                        .needs_grad_input = desc.needs_grad_input};
  return std::make_unique<Conv2d>(std::move(plan), conv);
}

}  // namespace ddpbench::ops::reference
