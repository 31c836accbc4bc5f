// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// relu and add as operations, over any layout of either type.
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"

#include "base/error.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

// An operation whose inputs and output all have one layout, of any kind.
class ElementwiseOp : public PlannedOp {
 public:
  ElementwiseOp(ContextPtr context, const TensorLayout& layout, const char* name,
                std::size_t inputs)
      : context_(std::move(context)) {
    check_shape(layout.shape, name);
    where_ = fmt::format("{} on {}", name, to_string(layout.shape));
    count_ = element_index(element_count(layout.shape), where_);
    plan_.description = name;
    plan_.inputs.assign(inputs, layout);
    plan_.output = layout;
  }

 protected:
  DataType type() const { return plan_.output.type; }

  ContextPtr context_;
  std::string where_;
  std::uint32_t count_ = 0;
};

class Relu final : public ElementwiseOp {
 public:
  Relu(ContextPtr context, const ReluDesc& desc)
      : ElementwiseOp(std::move(context), desc.input, "relu", 1) {
    plan_.needs_output = true;
  }
  void forward(Stream& stream, const ForwardArgs& args) override {
    check(relu_forward(type(), args.inputs[0], args.output, count_,
                       ddpbench::cuda::native_stream(stream)),
          where_, "relu_forward");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    check(relu_backward(type(), args.output, args.grad_output, args.grad_inputs[0], count_,
                        ddpbench::cuda::native_stream(stream)),
          where_, "relu_backward");
  }
};

class Add final : public ElementwiseOp {
 public:
  Add(ContextPtr context, const AddDesc& desc)
      : ElementwiseOp(std::move(context), desc.input, "add", 2) {}
  void forward(Stream& stream, const ForwardArgs& args) override {
    check(add(type(), args.inputs[0], args.inputs[1], args.output, count_,
              ddpbench::cuda::native_stream(stream)),
          where_, "add");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    for (void* const grad : args.grad_inputs) {
      if (!grad || grad == args.grad_output) continue;
      check(cudaMemcpyAsync(grad, args.grad_output, plan_.output.bytes, cudaMemcpyDeviceToDevice,
                            ddpbench::cuda::native_stream(stream)),
            where_, "cudaMemcpyAsync");
    }
  }
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const ReluDesc& desc) {
  return std::make_unique<Relu>(std::move(context), desc);
}
std::unique_ptr<Op> make_op(ContextPtr context, const AddDesc& desc) {
  return std::make_unique<Add>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
