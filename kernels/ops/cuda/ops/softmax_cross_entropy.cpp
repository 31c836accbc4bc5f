// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The loss, on an own kernel.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/loss_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

LossShape loss_shape(std::int64_t batch, std::int64_t classes) {
  return {static_cast<std::uint32_t>(batch), static_cast<std::uint32_t>(classes)};
}

class Loss final : public SoftmaxCrossEntropy {
 public:
  Loss(ContextPtr context, std::int64_t batch, std::int64_t classes)
      : context_(std::move(context)) {
    check_shape({batch, classes}, "softmax_cross_entropy");
    where_ = fmt::format("softmax_cross_entropy on [{}, {}]", batch, classes);
    element_index(batch * classes, where_);
    shape_ = loss_shape(batch, classes);
    partial_ = context_->device.allocate(loss_workspace_bytes(shape_), MemoryCategory::workspace);
  }

  void run(Stream& stream, const LossArgs& args) override {
    ensure(args.samples >= 0 && args.samples <= shape_.batch, "{}: {} samples", where_,
           args.samples);
    check(cuda::softmax_cross_entropy(shape_, args, partial_.data(),
                                      ddpbench::cuda::native_stream(stream)),
          where_, "softmax_cross_entropy");
  }

 private:
  ContextPtr context_;
  std::string where_;
  LossShape shape_;
  Buffer partial_;  // totals of the kernel's blocks
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(ContextPtr context,
                                                                std::int64_t batch,
                                                                std::int64_t classes) {
  return std::make_unique<Loss>(std::move(context), batch, classes);
}
std::size_t loss_workspace_bytes(std::int64_t batch, std::int64_t classes) {
  return loss_workspace_bytes(loss_shape(batch, classes));
}

}  // namespace ddpbench::ops::cuda
