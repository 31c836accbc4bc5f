// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The optimizers and the mean of buffers, on own kernels over flat memory.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/flat_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"

namespace ddpbench::ops::cuda {
namespace {

class FlatOptimizer final : public Optimizer {
 public:
  void run(Stream& stream, const OptimizerArgs& args) override {
    element_index(static_cast<std::int64_t>(args.count), "optimizer");
    check(optimizer_step(args, ddpbench::cuda::native_stream(stream)), "optimizer",
          "optimizer_step");
  }
};

class FlatMean final : public Mean {
 public:
  void run(Stream& stream, std::span<const float* const> inputs, float* out,
           std::size_t count) override {
    ensure(!inputs.empty(), "the mean of no buffers");
    if (inputs.size() > kMaxMeanInputs) {
      throw DeviceError(fmt::format("the mean of {} buffers; at most {} are possible",
                                    inputs.size(), kMaxMeanInputs));
    }
    const std::uint32_t elements = element_index(static_cast<std::int64_t>(count), "mean");
    check(mean_of(inputs, out, elements, ddpbench::cuda::native_stream(stream)), "mean", "mean_of");
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer() { return std::make_unique<FlatOptimizer>(); }
std::unique_ptr<Mean> make_mean() { return std::make_unique<FlatMean>(); }

}  // namespace ddpbench::ops::cuda
