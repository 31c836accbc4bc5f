// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference batch_norm2d (Ioffe and Szegedy, "Batch normalization", ICML 2015; names, momentum and
// the unbiased running variance as torch.nn.BatchNorm2d). Sums in double; `saved` keeps mean and
// 1 / sqrt(var + eps) of each channel.
//
// With g the gradient of the normalised map, n values a channel and x^ = (x - mean) * inv_std:
//   d weight = sum(g x^), d bias = sum(g),
//   d x = weight * inv_std * (g - sum(g) / n - x^ sum(g x^) / n).
#include <cmath>

#include "base/error.h"
#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class BatchNorm2d : public Op {
 public:
  explicit BatchNorm2d(const BatchNorm2dDesc& desc) : Op(plain_plan(desc)), desc_(desc) {
    const Shape& shape = plan_.output.shape;
    batch_ = shape[0], channels_ = shape[1], pixels_ = shape[2] * shape[3];
    plan_.saved_bytes = static_cast<std::size_t>(2 * channels_) * sizeof(double);
  }

  void forward(Stream&, const ForwardArgs& args) override {
    auto* saved = static_cast<double*>(args.saved);
    for (std::int64_t c = 0; c < channels_; ++c) {
      double mean = floats(args.state[0])[c];
      double variance = floats(args.state[1])[c];
      if (args.mode == Mode::training) take_statistics(args, c, mean, variance);
      const double inv_std = 1 / std::sqrt(variance + desc_.eps);
      saved[2 * c] = mean;
      saved[2 * c + 1] = inv_std;
      normalize(args, c, mean, inv_std);
    }
    if (args.mode == Mode::training) ++*static_cast<std::int64_t*>(args.state[2]);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    for (std::int64_t c = 0; c < channels_; ++c) backward_channel(args, c);
  }

 private:
  // Calls body(index of the element) for all values of a channel.
  template <typename Body>
  void for_each(std::int64_t channel, const Body& body) const {
    for (std::int64_t n = 0; n < batch_; ++n)
      for (std::int64_t p = 0; p < pixels_; ++p) body((n * channels_ + channel) * pixels_ + p);
  }
  double values() const { return static_cast<double>(batch_ * pixels_); }

  template <typename Args>
  double parameter(const Args& args, std::size_t i, std::int64_t channel, double without) const {
    return desc_.affine ? floats(args.parameters[i])[channel] : without;
  }

  void take_statistics(const ForwardArgs& args, std::int64_t channel, double& mean,
                       double& variance) const {
    const auto* x = floats(args.inputs[0]);
    mean = variance = 0;
    for_each(channel, [&](std::int64_t k) { mean += x[k]; });
    mean /= values();
    for_each(channel, [&](std::int64_t k) { variance += (x[k] - mean) * (x[k] - mean); });
    const double unbiased = variance / (values() - 1);
    variance /= values();
    const auto move = [&](void* running, double value) {
      float& r = floats(running)[channel];
      r = static_cast<float>((1 - desc_.momentum) * r + desc_.momentum * value);
    };
    move(args.state[0], mean);
    move(args.state[1], unbiased);
  }

  void normalize(const ForwardArgs& args, std::int64_t channel, double mean, double inv_std) const {
    const auto* x = floats(args.inputs[0]);
    const auto* addend = desc_.fuse_add ? floats(args.inputs[1]) : nullptr;
    auto* y = floats(args.output);
    const double weight = parameter(args, 0, channel, 1), bias = parameter(args, 1, channel, 0);
    for_each(channel, [&](std::int64_t k) {
      double value = (x[k] - mean) * inv_std * weight + bias;
      if (addend) value += addend[k];
      y[k] = desc_.fuse_relu ? relu(static_cast<float>(value)) : static_cast<float>(value);
    });
  }

  void backward_channel(const BackwardArgs& args, std::int64_t channel) const {
    const auto* x = floats(args.inputs[0]);
    const auto* dy = floats(args.grad_output);
    const auto* y = floats(args.output);
    const auto* saved = static_cast<const double*>(args.saved);
    const double mean = saved[2 * channel], inv_std = saved[2 * channel + 1];
    const double weight = parameter(args, 0, channel, 1), bias = parameter(args, 1, channel, 0);
    const auto normal = [&](std::int64_t k) { return (x[k] - mean) * inv_std; };
    const auto gradient = [&](std::int64_t k) {
      if (!desc_.fuse_relu) return dy[k];
      return relu_gradient(y ? y[k] : static_cast<float>(normal(k) * weight + bias), dy[k]);
    };
    double sum = 0, product = 0;
    for_each(channel, [&](std::int64_t k) {
      sum += gradient(k);
      product += gradient(k) * normal(k);
    });
    if (desc_.affine && args.grad_parameters[0]) {
      put(floats(args.grad_parameters[0]) + channel, product, args.accumulate);
      put(floats(args.grad_parameters[1]) + channel, sum, args.accumulate);
    }
    auto* dx = floats(args.grad_inputs[0]);
    auto* d_addend = desc_.fuse_add ? floats(args.grad_inputs[1]) : nullptr;
    for_each(channel, [&](std::int64_t k) {
      const double g = gradient(k);
      if (dx)
        dx[k] = static_cast<float>(weight * inv_std *
                                   (g - sum / values() - normal(k) * product / values()));
      if (d_addend) d_addend[k] = static_cast<float>(g);
    });
  }

  BatchNorm2dDesc desc_;
  std::int64_t batch_ = 0, channels_ = 0, pixels_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(const BatchNorm2dDesc& desc) {
  // What the parts of a batch compute together is what this computes of the whole.
  if (desc.parts != nullptr) throw DeviceError("the reference backend takes whole batches");
  return std::make_unique<BatchNorm2d>(desc);
}

}  // namespace ddpbench::ops::reference
