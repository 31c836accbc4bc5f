// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference linear: y[n,o] = bias[o] + sum_k x[n,k] w[o,k]. 2 * batch * in * out FLOPs forward, the
// same for each gradient.
#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Linear : public Op {
 public:
  explicit Linear(const LinearDesc& desc)
      : Op(plain_plan(desc)),
        desc_(desc),
        batch_(desc.input.shape[0]),
        in_(plan_.parameters[0].shape[1]),
        out_(desc.out_features) {}

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const auto* w = static_cast<const float*>(args.parameters[0]);
    const auto* bias = desc_.bias ? static_cast<const float*>(args.parameters[1]) : nullptr;
    auto* y = static_cast<float*>(args.output);
    for (std::int64_t n = 0; n < batch_; ++n)
      for (std::int64_t o = 0; o < out_; ++o) {
        double sum = bias ? bias[o] : 0;
        for (std::int64_t k = 0; k < in_; ++k)
          sum += static_cast<double>(x[n * in_ + k]) * w[o * in_ + k];
        const auto value = static_cast<float>(sum);
        y[n * out_ + o] = desc_.fuse_relu ? relu(value) : value;
      }
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const auto* w = static_cast<const float*>(args.parameters[0]);
    auto* dw = static_cast<float*>(args.grad_parameters[0]);
    for (std::int64_t o = 0; o < out_; ++o)
      for (std::int64_t k = 0; k < in_; ++k)
        put(dw + o * in_ + k,
            sum_over(batch_,
                     [&](std::int64_t n) {
                       return gradient(args, n, o) * static_cast<double>(x[n * in_ + k]);
                     }),
            args.accumulate);
    for (std::int64_t o = 0; desc_.bias && o < out_; ++o)
      put(static_cast<float*>(args.grad_parameters[1]) + o,
          sum_over(batch_, [&](std::int64_t n) { return gradient(args, n, o); }), args.accumulate);
    if (!desc_.needs_grad_input || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    auto* dx = static_cast<float*>(args.grad_inputs[0]);
    for (std::int64_t n = 0; n < batch_; ++n)
      for (std::int64_t k = 0; k < in_; ++k)
        put(dx + n * in_ + k,
            sum_over(out_,
                     [&](std::int64_t o) {
                       return gradient(args, n, o) * static_cast<double>(w[o * in_ + k]);
                     }),
            false);
  }

 private:
  template <typename Term>
  static double sum_over(std::int64_t count, const Term& term) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += term(i);
    return sum;
  }

  double gradient(const BackwardArgs& args, std::int64_t n, std::int64_t o) const {
    const float grad = static_cast<const float*>(args.grad_output)[n * out_ + o];
    if (!desc_.fuse_relu) return grad;
    return relu_gradient(static_cast<const float*>(args.output)[n * out_ + o], grad);
  }

  LinearDesc desc_;
  std::int64_t batch_, in_, out_;
};

}  // namespace

std::unique_ptr<Op> make_op(const LinearDesc& desc) { return std::make_unique<Linear>(desc); }

}  // namespace ddpbench::ops::reference
