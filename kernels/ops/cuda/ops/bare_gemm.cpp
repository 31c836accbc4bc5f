// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as an operation, for benchmarks (cuda_backend.h).
#include "base/error.h"
#include "kernels/ops/cuda/library/gemm.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

class BareGemm final : public PlannedOp {
 public:
  BareGemm(ContextPtr context, const BareGemmDesc& desc)
      : context_(std::move(context)),
        where_(fmt::format("product {} x {} x {}", desc.rows, desc.columns, desc.terms)) {
    const DataType type = context_->activation_type();
    plan_.description = where_;
    for (const Shape& shape : {Shape{desc.rows, desc.terms}, Shape{desc.columns, desc.terms}}) {
      check_shape(shape, "product");
      plan_.inputs.push_back(TensorLayout::plain(shape, type));
    }
    plan_.output = TensorLayout::plain({desc.rows, desc.columns}, type);
    plan_.forward_flops = 2.0 * static_cast<double>(desc.rows) * static_cast<double>(desc.columns) *
                          static_cast<double>(desc.terms);
    // As a linear layer's: y^T [columns, rows] = b [columns, terms] a^T [terms, rows]
    gemm_.emplace(*context_,
                  GemmDesc{.m = desc.columns,
                           .n = desc.rows,
                           .k = desc.terms,
                           .transpose_a = true,
                           .input = type,
                           .output = type},
                  where_);
    plan_.workspace_bytes = gemm_->workspace_bytes();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    gemm_->run(ddpbench::cuda::native_stream(stream), {args.inputs[1], args.inputs[0], args.output},
               args.workspace);
  }
  void backward(Stream&, const BackwardArgs&) override {
    throw InternalError(where_ + ": has no backward");
  }

 private:
  ContextPtr context_;
  std::string where_;
  std::optional<Gemm> gemm_;
};

}  // namespace

std::unique_ptr<Op> make_bare_gemm(ContextPtr context, const BareGemmDesc& desc) {
  return std::make_unique<BareGemm>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
