// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands around the network in a step: batch, loss, mean and update. All on own kernels.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/gather_kernels.h"
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

class FlatSgd final : public Sgd {
 public:
  void run(Stream& stream, const SgdArgs& args) override {
    ensure(args.options.momentum == 0 || args.velocity || args.count == 0,
           "SGD with momentum {} has no velocity buffer", args.options.momentum);
    element_index(static_cast<std::int64_t>(args.count), "SGD");
    check(sgd_step(args, ddpbench::cuda::native_stream(stream)), "SGD", "sgd_step");
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

class DeviceGather final : public BatchGather {
 public:
  void run(Stream& stream, const GatherArgs& args) override {
    check_gather(args);
    if (static_cast<std::size_t>(args.channels) > kMaxGatherChannels) {
      throw ConfigError(fmt::format("batch_gather: {} channels; at most {} are possible",
                                    args.channels, kMaxGatherChannels));
    }
    element_index(args.batch * args.sample_elements, "batch_gather");
    check(gather_batch(args, ddpbench::cuda::native_stream(stream)), "batch_gather",
          "gather_batch");
  }
};

}  // namespace

std::unique_ptr<SoftmaxCrossEntropy> make_softmax_cross_entropy(ContextPtr context,
                                                                std::int64_t batch,
                                                                std::int64_t classes) {
  return std::make_unique<Loss>(std::move(context), batch, classes);
}
std::size_t loss_bytes(std::int64_t batch, std::int64_t classes) {
  return loss_workspace_bytes(loss_shape(batch, classes));
}
std::unique_ptr<Sgd> make_sgd() { return std::make_unique<FlatSgd>(); }
std::unique_ptr<Mean> make_mean() { return std::make_unique<FlatMean>(); }
std::unique_ptr<BatchGather> make_batch_gather() { return std::make_unique<DeviceGather>(); }

}  // namespace ddpbench::ops::cuda
