// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The loss, on an own kernel.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/loss_kernels.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"

namespace ddpbench::ops::cuda {
namespace {

LossShape loss_shape(const CrossEntropyDesc& desc) {
  LossShape shape;
  shape.batch = static_cast<std::uint32_t>(desc.batch);
  shape.classes = static_cast<std::uint32_t>(desc.classes);
  shape.positions = static_cast<std::uint32_t>(desc.positions);
  shape.ignore_index = desc.ignore_index;
  shape.label_share = static_cast<float>(1 - desc.label_smoothing);
  shape.class_share = static_cast<float>(desc.label_smoothing / static_cast<double>(desc.classes));
  shape.weight = static_cast<float>(desc.weight);
  shape.counts_hits = desc.counts_hits;
  return shape;
}

class Loss final : public SoftmaxCrossEntropy {
 public:
  explicit Loss(const CrossEntropyDesc& desc) {
    check_loss(desc);
    where_ = describe(desc);
    element_index(desc.batch * desc.classes * desc.positions, where_);
    shape_ = loss_shape(desc);
  }

  void run(Stream& stream, const LossArgs& args) override {
    ensure(args.samples >= 0 && args.samples <= shape_.batch, "{}: {} samples", where_,
           args.samples);
    ensure(args.workspace != nullptr, "{}: no workspace", where_);
    check(cuda::softmax_cross_entropy(shape_, args, ddpbench::cuda::native_stream(stream)), where_,
          "softmax_cross_entropy");
  }

 private:
  std::string where_;
  LossShape shape_;
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(const CrossEntropyDesc& desc) {
  return std::make_unique<Loss>(desc);
}

std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) {
  return loss_workspace_bytes(loss_shape(desc));
}

}  // namespace ddpbench::ops::cuda
