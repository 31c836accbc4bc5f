// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference max_pool2d. The first largest element of each window wins, and NaN counts as largest
// (PyTorch's rule). kh * kw comparisons an output; `saved` keeps each winner's index in its plane.
#include <cmath>
#include <limits>

#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

constexpr std::int64_t kNoGradient = -1;  // the fused ReLU cut the gradient off

class MaxPool2d : public Op {
 public:
  explicit MaxPool2d(const MaxPool2dDesc& desc) : Op(plain_plan(desc)), desc_(desc) {
    const Shape& in = plan_.inputs[0].shape;
    const Shape& out = plan_.output.shape;
    planes_ = in[0] * in[1], height_ = in[2], width_ = in[3];
    out_h_ = out[2], out_w_ = out[3];
    plan_.saved_bytes = static_cast<std::size_t>(element_count(out)) * sizeof(std::int64_t);
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.output);
    auto* winners = static_cast<std::int64_t*>(args.saved);
    for (std::int64_t plane = 0; plane < planes_; ++plane)
      for (std::int64_t i = 0; i < out_h_; ++i)
        for (std::int64_t j = 0; j < out_w_; ++j) {
          const float* maps = x + plane * height_ * width_;
          std::int64_t winner = find_winner(maps, i, j);
          float value = maps[winner];
          if (desc_.fuse_relu) {
            if (value <= 0) winner = kNoGradient;
            value = relu(value);
          }
          *y++ = value;
          *winners++ = winner;
        }
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* dy = static_cast<const float*>(args.grad_output);
    const auto* winners = static_cast<const std::int64_t*>(args.saved);
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    auto* dx = static_cast<float*>(args.grad_inputs[0]);
    std::fill(dx, dx + planes_ * height_ * width_, 0.0F);
    for (std::int64_t plane = 0; plane < planes_; ++plane)
      for (std::int64_t k = 0; k < out_h_ * out_w_; ++k, ++dy, ++winners)
        if (*winners != kNoGradient) dx[plane * height_ * width_ + *winners] += *dy;
  }

 private:
  std::int64_t find_winner(const float* maps, std::int64_t i, std::int64_t j) const {
    std::int64_t winner = -1;
    float best = -std::numeric_limits<float>::infinity();
    for (std::int64_t p = 0; p < desc_.window.kernel_h; ++p)
      for (std::int64_t q = 0; q < desc_.window.kernel_w; ++q) {
        const std::int64_t row = i * desc_.window.stride_h - desc_.window.pad_h + p;
        const std::int64_t column = j * desc_.window.stride_w - desc_.window.pad_w + q;
        if (row < 0 || row >= height_ || column < 0 || column >= width_) continue;
        const float value = maps[row * width_ + column];
        if (winner < 0 || value > best || std::isnan(value)) {
          winner = row * width_ + column;
          best = value;
        }
      }
    return winner;
  }

  MaxPool2dDesc desc_;
  std::int64_t planes_, height_, width_, out_h_, out_w_;
};

}  // namespace

std::unique_ptr<Op> make_op(const MaxPool2dDesc& desc) { return std::make_unique<MaxPool2d>(desc); }

}  // namespace ddpbench::ops::reference
