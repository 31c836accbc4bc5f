// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// relu and add in the type that their input has, 2 to 3 elements of memory for each of the result;
// dropout in fp32.
#include <cstring>

#include "kernels/ops/cpu/dropout.h"
#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {
namespace {

class CpuElementwiseOp : public ElementwiseOp {
 protected:
  CpuElementwiseOp(ContextPtr context, const TensorLayout& layout, const char* name,
                   std::size_t inputs)
      : ElementwiseOp(layout, name, inputs), context_(std::move(context)) {}
  std::int64_t count() const {
    return static_cast<std::int64_t>(plan_.output.bytes / size_of(plan_.output.type));
  }
  cpu::Team team() const { return {context_->simd, context_->threads}; }

 private:
  ContextPtr context_;
};

class Relu : public CpuElementwiseOp {
 public:
  Relu(ContextPtr context, const ReluDesc& desc)
      : CpuElementwiseOp(std::move(context), desc.input, "relu", 1) {
    plan_.needs_output = true;
  }
  void forward(Stream&, const ForwardArgs& args) override {
    cpu::with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      cpu::relu_forward(team(), static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.output),
                        count());
    });
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    cpu::with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      cpu::relu_backward(team(), static_cast<const T*>(args.output),
                         static_cast<const T*>(args.grad_output),
                         static_cast<T*>(args.grad_inputs[0]), count());
    });
  }
};

class Add : public CpuElementwiseOp {
 public:
  Add(ContextPtr context, const AddDesc& desc)
      : CpuElementwiseOp(std::move(context), desc.input, "add", 2) {}
  void forward(Stream&, const ForwardArgs& args) override {
    cpu::with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      cpu::add(team(), static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
               static_cast<T*>(args.output), count());
    });
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad && grad != args.grad_output) std::memcpy(grad, args.grad_output, plan_.output.bytes);
  }
};

// Networks have it on the features that linear layers make or read, whose order is the plain one.
class Dropout : public DropoutOp {
 public:
  Dropout(ContextPtr context, const DropoutDesc& desc)
      : DropoutOp(desc, TensorLayout::plain(desc.input.shape)), context_(std::move(context)) {
    plan_.saved_bytes = static_cast<std::size_t>(samples() * elements());
  }
  void forward(Stream&, const ForwardArgs& args) override {
    if (args.mode == Mode::evaluation) {
      std::memcpy(args.output, args.inputs[0], plan_.output.bytes);
      return;
    }
    cpu::dropout_forward(team(), mask(), args.draw, samples(), elements(),
                         static_cast<const float*>(args.inputs[0]),
                         static_cast<float*>(args.output), static_cast<std::uint8_t*>(args.saved));
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    cpu::dropout_backward(team(), static_cast<const std::uint8_t*>(args.saved), mask().scale,
                          static_cast<const float*>(args.grad_output),
                          static_cast<float*>(args.grad_inputs[0]), samples() * elements());
  }

 private:
  cpu::Team team() const { return {context_->simd, context_->threads}; }
  ContextPtr context_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const DropoutDesc& desc) {
  return std::make_unique<Dropout>(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const ReluDesc& desc) {
  return std::make_unique<Relu>(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const AddDesc& desc) {
  return std::make_unique<Add>(std::move(context), desc);
}

}  // namespace ddpbench::ops::onednn
