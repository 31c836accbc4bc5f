// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The pass over a bias as an operation, for benchmarks (cuda_backend.h).
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/library/gradient_pass.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

class BiasPass final : public PlannedOp {
 public:
  BiasPass(ContextPtr context, const BiasPassDesc& desc)
      : context_(std::move(context)), relu_(desc.relu) {
    const Shape shape = {desc.rows, desc.columns};
    check_shape(shape, "bias pass");
    plan_.description = desc.relu ? "bias pass +relu" : "bias pass";
    where_ = plan_.description + " on " + to_string(shape);
    count_ = element_index(element_count(shape), where_);
    columns_ = element_index(desc.columns, where_);
    plan_.output = TensorLayout::plain(shape, context_->activation_type());
    plan_.inputs = {plan_.output};
    plan_.parameters = {{"bias", {desc.columns}, TensorLayout::plain({desc.columns}), 1}};
    plan_.needs_output = relu_;
    WorkspaceLayout workspace;
    gradient_pass_ = GradientPass({.type = plan_.output.type,
                                   .rows = count_ / columns_,
                                   .columns = columns_,
                                   .relu = relu_,
                                   .bias = true},
                                  workspace);
    plan_.workspace_bytes = workspace.bytes();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    BiasRelu pass{};
    pass.type = plan_.output.type;
    pass.y = args.output;
    pass.bias = static_cast<const float*>(args.parameters[0]);
    pass.columns = columns_;
    pass.relu = relu_;
    check(bias_relu(pass, count_, ddpbench::cuda::native_stream(stream)), where_, "bias_relu");
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    gradient_pass_.run(args, ddpbench::cuda::native_stream(stream), where_);
  }

 private:
  ContextPtr context_;
  bool relu_;
  std::string where_;
  std::uint32_t count_ = 0, columns_ = 0;
  GradientPass gradient_pass_;
};

}  // namespace

std::unique_ptr<Op> make_bias_pass(ContextPtr context, const BiasPassDesc& desc) {
  return std::make_unique<BiasPass>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
