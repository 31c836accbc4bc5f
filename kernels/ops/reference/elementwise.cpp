// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference relu, add and reorder: at most one operation and 8 to 12 bytes an element.
#include <cstring>

#include "base/error.h"
#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Relu : public ElementwiseOp {
 public:
  explicit Relu(const ReluDesc& desc)
      : ElementwiseOp(TensorLayout::plain(desc.input.shape), "relu", 1) {
    plan_.needs_output = true;
  }
  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.output);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k) y[k] = relu(x[k]);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    const auto* y = static_cast<const float*>(args.output);
    const auto* dy = static_cast<const float*>(args.grad_output);
    auto* dx = static_cast<float*>(args.grad_inputs[0]);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k)
      dx[k] = relu_gradient(y[k], dy[k]);
  }
};

class Add : public ElementwiseOp {
 public:
  explicit Add(const AddDesc& desc)
      : ElementwiseOp(TensorLayout::plain(desc.input.shape), "add", 2) {}
  void forward(Stream&, const ForwardArgs& args) override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    auto* y = static_cast<float*>(args.output);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k) y[k] = a[k] + b[k];
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad) std::memmove(grad, args.grad_output, plan_.output.bytes);
  }
};

class Reorder : public ElementwiseOp {
 public:
  explicit Reorder(const ReorderDesc& desc)
      : ElementwiseOp(TensorLayout::plain(desc.from.shape), "reorder", 1) {
    if (desc.from.shape != desc.to.shape || !desc.from.is_plain() || !desc.to.is_plain())
      throw ConfigError(fmt::format(
          "reorder: {} {} to {} {}: the reference backend has plain layouts only",
          to_string(desc.from.shape), desc.from.tag, to_string(desc.to.shape), desc.to.tag));
  }
  void forward(Stream&, const ForwardArgs& args) override {
    std::memcpy(args.output, args.inputs[0], plan_.output.bytes);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0]) std::memcpy(args.grad_inputs[0], args.grad_output, plan_.output.bytes);
  }
};

}  // namespace

std::unique_ptr<Op> make_op(const ReluDesc& desc) { return std::make_unique<Relu>(desc); }
std::unique_ptr<Op> make_op(const AddDesc& desc) { return std::make_unique<Add>(desc); }
std::unique_ptr<Op> make_op(const ReorderDesc& desc) { return std::make_unique<Reorder>(desc); }

}  // namespace ddpbench::ops::reference
