// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// activations and add as operations, over any layout of either type, and dropout over plain ones.
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"

#include "base/error.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

class CudaElementwiseOp : public Op {
 protected:
  template <typename Desc>
  explicit CudaElementwiseOp(const Desc& desc)
      : Op(plain_plan(desc)),
        where_(where_of(desc)),
        count_(element_index(element_count(desc.input.shape), where_)) {}
  DataType type() const { return plan_.output.type; }

  std::string where_;
  std::uint32_t count_;
};

class ActivationOp final : public CudaElementwiseOp {
 public:
  explicit ActivationOp(const ActivationDesc& desc) : CudaElementwiseOp(desc), kind_(desc.kind) {}
  void forward(Stream& stream, const ForwardArgs& args) override {
    check(activate(kind_, type(), args.inputs[0], args.output, count_, native_stream(stream)),
          where_, "activate");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    check(activation_backward(kind_, type(), args.output, args.grad_output, args.grad_inputs[0],
                              count_, native_stream(stream)),
          where_, "activation_backward");
  }

 private:
  Activation kind_;
};

class Add final : public CudaElementwiseOp {
 public:
  explicit Add(const AddDesc& desc) : CudaElementwiseOp(desc) {}
  void forward(Stream& stream, const ForwardArgs& args) override {
    check(add(type(), args.inputs[0], args.inputs[1], args.output, count_, native_stream(stream)),
          where_, "add");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    for (void* const grad : args.grad_inputs) {
      if (!grad || grad == args.grad_output) continue;
      check(cudaMemcpyAsync(grad, args.grad_output, plan_.output.bytes, cudaMemcpyDeviceToDevice,
                            native_stream(stream)),
            where_, "cudaMemcpyAsync");
    }
  }
};

class DropoutOfCuda final : public DropoutOp {
 public:
  explicit DropoutOfCuda(const DropoutDesc& desc) : DropoutOp(desc), where_(where_of(desc)) {
    element_index(element_count(desc.input.shape), where_);
    // The mask's counters are whole groups.
    element_index(samples() * round_up(elements(), kMaskGroup), where_);
  }
  void forward(Stream& stream, const ForwardArgs& args) override {
    if (args.mode == Mode::training) return apply(stream, args.draw, args.inputs[0], args.output);
    check(cudaMemcpyAsync(args.output, args.inputs[0], plan_.output.bytes, cudaMemcpyDeviceToDevice,
                          native_stream(stream)),
          where_, "cudaMemcpyAsync");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    if (args.grad_inputs[0]) apply(stream, args.draw, args.grad_output, args.grad_inputs[0]);
  }

 private:
  void apply(Stream& stream, const RandomDraw& draw, const void* from, void* to) const {
    check(dropout({.type = plan_.output.type,
                   .x = from,
                   .y = to,
                   .samples = static_cast<std::uint32_t>(samples()),
                   .elements = static_cast<std::uint32_t>(elements()),
                   .mask = mask_,
                   .draw = draw},
                  native_stream(stream)),
          where_, "dropout");
  }
  std::string where_;
};

}  // namespace

std::unique_ptr<Op> make_op(const ContextPtr&, const DropoutDesc& desc) {
  return std::make_unique<DropoutOfCuda>(desc);
}
std::unique_ptr<Op> make_op(const ContextPtr&, const ActivationDesc& desc) {
  return std::make_unique<ActivationOp>(desc);
}
std::unique_ptr<Op> make_op(const ContextPtr&, const AddDesc& desc) {
  return std::make_unique<Add>(desc);
}

}  // namespace ddpbench::ops::cuda
