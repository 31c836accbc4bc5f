// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of the CUDA backend. Forward and backward never allocate, wait or read back, so
// all can be recorded in a CUDA graph (after one call each, which loads the kernels).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/ops/cuda/kernels/column_sums.h"
#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const LinearDesc& desc);
std::unique_ptr<Op> make_op(ContextPtr context, const BatchNorm2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const MaxPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ActivationDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AddDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ReorderDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const AdaptiveAvgPool2dDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const UpsampleBilinearDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const ConcatDesc& desc);
std::unique_ptr<Op> make_op(const ContextPtr& context, const DropoutDesc& desc);

// Waits for all work of the device, since the tensors may be results of other streams. Then blocks
// until the conversion is done.
void convert(Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to);

// The pass of convolutions and linear layers over their output's gradient, before the library's
// calls: it rectifies the gradient and sums that of the bias (column_sums.h has the cost).
class GradientPass {
 public:
  // The output is [rows, columns] in memory. Each column belongs to one element of the bias.
  struct Shape {
    DataType type = DataType::fp32;
    std::uint32_t rows = 0, columns = 0;
    bool relu = false, bias = false;
  };

  GradientPass() = default;
  // Takes its part of backward's workspace.
  GradientPass(const Shape& shape, WorkspaceLayout& workspace) : shape_(shape) {
    if (shape.relu) {
      masked_ = workspace.add(std::size_t{shape.rows} * shape.columns * size_of(shape.type));
    }
    if (shape.bias) sums_ = workspace.add(column_sums_workspace_bytes(shape.rows, shape.columns));
  }

  // Returns where the rectified gradient lies: in the workspace, or where it was. The bias's
  // gradient is the last of grad_parameters.
  const void* run(const BackwardArgs& args, cudaStream_t stream, std::string_view where) const {
    const bool bias = shape_.bias && args.grad_parameters.back() != nullptr;
    if (!shape_.relu && !bias) return args.grad_output;
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    const ColumnSums pass{.type = shape_.type,
                          .rows = shape_.rows,
                          .columns = shape_.columns,
                          .gradient = args.grad_output,
                          .output = shape_.relu ? args.output : nullptr,
                          .masked = shape_.relu ? workspace + masked_ : nullptr,
                          .sums = bias ? static_cast<float*>(args.grad_parameters.back()) : nullptr,
                          .accumulate = args.accumulate,
                          .workspace = workspace + sums_};
    check(column_sums(pass, stream), where, "column_sums");
    return shape_.relu ? pass.masked : args.grad_output;
  }

 private:
  Shape shape_;
  std::size_t masked_ = 0, sums_ = 0;
};

}  // namespace ddpbench::ops::cuda
