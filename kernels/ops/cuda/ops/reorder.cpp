// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reorders between layouts and types: no FLOPs; every byte of both sides moves once.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/transpose_kernels.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

Transpose plan_change(const TensorLayout& from, const TensorLayout& to, const std::string& where) {
  const LayoutChange change = layout_change(from, to);
  element_index(element_count(from.shape), where);
  Transpose plan{};
  plan.batch = static_cast<std::uint32_t>(change.batch);
  plan.rows = static_cast<std::uint32_t>(change.rows);
  plan.columns = static_cast<std::uint32_t>(change.columns);
  plan.from_type = from.type;
  plan.to_type = to.type;
  return plan;
}

void run(Transpose plan, const void* from, void* to, cudaStream_t stream,
         const std::string& where) {
  plan.from = from;
  plan.to = to;
  check(transpose(plan, stream), where, "transpose");
}

class Reorder final : public PlannedOp {
 public:
  Reorder(ContextPtr context, const ReorderDesc& desc) : context_(std::move(context)) {
    plan_.description = fmt::format("reorder {} {} -> {} {}", ddpbench::to_string(desc.from.type),
                                    desc.from.tag, ddpbench::to_string(desc.to.type), desc.to.tag);
    where_ = fmt::format("{} of {}", plan_.description, to_string(desc.from.shape));
    plan_.inputs = {desc.from};
    plan_.output = desc.to;
    forward_ = plan_change(desc.from, desc.to, where_);
    backward_ = plan_change(desc.to, desc.from, where_);
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    run(forward_, args.inputs[0], args.output, ddpbench::cuda::native_stream(stream), where_);
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    run(backward_, args.grad_output, args.grad_inputs[0], ddpbench::cuda::native_stream(stream),
        where_);
  }

 private:
  ContextPtr context_;
  std::string where_;
  Transpose forward_, backward_;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const ReorderDesc& desc) {
  check_shape(desc.from.shape, "reorder");
  return std::make_unique<Reorder>(std::move(context), desc);
}

void convert(Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to) {
  const std::string where = fmt::format("conversion of {}", to_string(from_layout.shape));
  const Transpose plan = plan_change(from_layout, to_layout, where);
  check(cudaDeviceSynchronize(), where, "cudaDeviceSynchronize");
  const std::unique_ptr<Stream> stream = context.device.make_stream();
  run(plan, from, to, ddpbench::cuda::native_stream(*stream), where);
  stream->synchronize();
}

}  // namespace ddpbench::ops::cuda
