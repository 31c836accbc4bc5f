// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/gradient_pass.h"

#include "kernels/ops/cuda/kernels/column_sums.h"

namespace ddpbench::ops::cuda {

GradientPass::GradientPass(const Shape& shape, WorkspaceLayout& workspace) : shape_(shape) {
  if (shape.relu) {
    masked_ = workspace.add(std::size_t{shape.rows} * shape.columns * size_of(shape.type));
  }
  if (shape.bias) sums_ = workspace.add(column_sums_workspace_bytes(shape.rows, shape.columns));
}

const void* GradientPass::run(const BackwardArgs& args, cudaStream_t stream,
                              std::string_view where) const {
  if (!shape_.relu && !shape_.bias) return args.grad_output;
  auto* const workspace = static_cast<std::byte*>(args.workspace);
  ColumnSums pass{};
  pass.type = shape_.type;
  pass.rows = shape_.rows;
  pass.columns = shape_.columns;
  pass.gradient = args.grad_output;
  if (shape_.relu) {
    pass.output = args.output;
    pass.masked = workspace + masked_;
  }
  pass.sums = shape_.bias ? static_cast<float*>(args.grad_parameters.back()) : nullptr;
  pass.accumulate = args.accumulate;
  pass.workspace = workspace + sums_;
  check(column_sums(pass, stream), where, "column_sums");
  return shape_.relu ? pass.masked : args.grad_output;
}

}  // namespace ddpbench::ops::cuda
