// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The pass of convolutions and linear layers over their output's gradient, before the library's
// calls: it rectifies the gradient and sums that of the bias (column_sums.h has the cost).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

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
  GradientPass(const Shape& shape, WorkspaceLayout& workspace);

  // Returns where the rectified gradient lies: in the workspace, or where it was. The bias's
  // gradient is the last of grad_parameters.
  const void* run(const BackwardArgs& args, cudaStream_t stream, std::string_view where) const;

 private:
  Shape shape_;
  std::size_t masked_ = 0, sums_ = 0;
};

}  // namespace ddpbench::ops::cuda
