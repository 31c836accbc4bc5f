// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// relu and add as operations: 8 to 12 bytes an element each way.
#include <cstring>

#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::onednn {
namespace {

// An operation whose inputs and output all have one layout, of any kind.
class ElementwiseOp : public PlannedOp {
 public:
  ElementwiseOp(ContextPtr context, const TensorLayout& layout, const char* name,
                std::size_t inputs)
      : context_(std::move(context)) {
    check_shape(layout.shape, name);
    plan_.description = name;
    plan_.inputs.assign(inputs, layout);
    plan_.output = layout;
  }

 protected:
  std::int64_t count() const {
    return static_cast<std::int64_t>(plan_.output.bytes / sizeof(float));
  }
  cpu::Team team() const { return {context_->simd, context_->threads}; }

 private:
  ContextPtr context_;
};

class Relu : public ElementwiseOp {
 public:
  Relu(ContextPtr context, const ReluDesc& desc)
      : ElementwiseOp(std::move(context), desc.input, "relu", 1) {
    plan_.needs_output = true;
  }
  void forward(Stream&, const ForwardArgs& args) override {
    cpu::relu_forward(team(), static_cast<const float*>(args.inputs[0]),
                      static_cast<float*>(args.output), count());
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0])
      cpu::relu_backward(team(), static_cast<const float*>(args.output),
                         static_cast<const float*>(args.grad_output),
                         static_cast<float*>(args.grad_inputs[0]), count());
  }
};

class Add : public ElementwiseOp {
 public:
  Add(ContextPtr context, const AddDesc& desc)
      : ElementwiseOp(std::move(context), desc.input, "add", 2) {}
  void forward(Stream&, const ForwardArgs& args) override {
    cpu::add(team(), static_cast<const float*>(args.inputs[0]),
             static_cast<const float*>(args.inputs[1]), static_cast<float*>(args.output), count());
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad && grad != args.grad_output) std::memcpy(grad, args.grad_output, plan_.output.bytes);
  }
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const ReluDesc& desc) {
  return std::make_unique<Relu>(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const AddDesc& desc) {
  return std::make_unique<Add>(std::move(context), desc);
}

}  // namespace ddpbench::ops::onednn
