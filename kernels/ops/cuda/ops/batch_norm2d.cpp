// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d by cuDNN, over plain or channels-last maps of either type, with statistics and
// parameters in fp32. With a map of S bytes the library moves at least 3 S forward and 5 S
// backward. A fused addend and ReLU are passes of their own, 3 S and 2 S forward, 3 S backward: the
// library fuses them for few types and layouts only.
//
// Over the parts of a divided batch the library takes the own part's statistics, and its result is
// not read; it then normalises by those of all parts: 3 S more forward. Backward it gets the
// statistics of all, so the parameters' gradients are right, and a pass of 3 S corrects the
// input's.
#include <cudnn.h>

#include <limits>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/batch_parts.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

// The state, in the order of plain_plan().
constexpr std::size_t kRunningMean = 0, kRunningVar = 1, kBatches = 2;
constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

Descriptor<cudnnTensorStruct> describe_tensor(const TensorLayout& layout,
                                              const std::string& where) {
  cudnnTensorStruct* made = nullptr;
  check(cudnnCreateTensorDescriptor(&made), where, "cudnnCreateTensorDescriptor");
  Descriptor<cudnnTensorStruct> descriptor(made);
  const auto extent = [&](std::size_t i) {
    if (layout.shape[i] > std::numeric_limits<int>::max())
      throw DeviceError(fmt::format("{}: {} is more than cuDNN can count", where, layout.shape[i]));
    return static_cast<int>(layout.shape[i]);
  };
  check(cudnnSetTensor4dDescriptor(made, is_nhwc(layout) ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   cudnn_type(layout.type), extent(0), extent(1), extent(2),
                                   extent(3)),
        where, "cudnnSetTensor4dDescriptor");
  return descriptor;
}

class BatchNorm2d final : public PlannedOp {
 public:
  BatchNorm2d(ContextPtr context, const BatchNorm2dDesc& desc)
      : PlannedOp(plain_plan(desc)), context_(std::move(context)), desc_(desc) {
    const Shape& shape = plan_.output.shape;
    where_ = fmt::format("{} on {}", describe(desc), to_string(shape));
    plan_.inputs.assign(plan_.inputs.size(), desc.input);
    plan_.output = desc.input;
    plan_.needs_output = desc.fuse_relu;
    count_ = element_index(element_count(shape), where_);
    channels_ = element_index(shape[1], where_);
    maps_ = describe_tensor(desc.input, where_);
    per_channel_ = describe_tensor(TensorLayout::plain({1, shape[1], 1, 1}), where_);
    const std::size_t channel_bytes = channels_ * sizeof(float);
    plan_.saved_bytes = 2 * channel_bytes;
    WorkspaceLayout workspace;
    for (std::size_t& offset : without_affine_) {
      if (!desc.affine) offset = workspace.add(channel_bytes);
    }
    if (desc.fuse_relu) rectified_ = workspace.add(plan_.output.bytes);
    if (!desc.needs_grad_input) unwanted_ = workspace.add(plan_.output.bytes);
    if (desc.parts != nullptr) plan_parts(workspace);
    plan_.workspace_bytes = workspace.bytes();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    cudaStream_t const native = context_->use(stream);
    if (!desc_.affine) fill_parameters(args.workspace, native);
    if (args.mode == Mode::evaluation) {
      normalize(args, args.state[kRunningMean], args.state[kRunningVar]);
    } else if (desc_.parts != nullptr) {
      train_with_parts(stream, args, native);
    } else {
      auto* const saved = static_cast<float*>(args.saved);
      take_statistics(args, args.state[kRunningMean], args.state[kRunningVar], saved);
      count_batch(args, native);
    }
    const DataType type = plan_.output.type;
    if (desc_.fuse_add) {
      check(add(type, args.output, args.inputs[1], args.output, count_, native), where_, "add");
    }
    if (desc_.fuse_relu) {
      check(relu_forward(type, args.output, args.output, count_, native), where_, "relu_forward");
    }
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    cudaStream_t const native = context_->use(stream);
    if (desc_.parts != nullptr) return backward_with_parts(stream, args, native);
    const void* const dy = gradient_of_sum(args, native);
    void* dx = args.grad_inputs[0];
    if (dx == nullptr) {
      ensure(!desc_.needs_grad_input, "{}: planned with an input's gradient", where_);
      dx = at(args.workspace, unwanted_);
    }
    const bool accumulate = desc_.affine && args.accumulate;
    if (!desc_.affine) fill_parameters(args.workspace, native);
    find_gradients(args, dy, dx, gradient(args, 0), gradient(args, 1), accumulate);
  }

 private:
  static void* at(void* workspace, std::size_t offset) {
    return static_cast<std::byte*>(workspace) + offset;
  }

  // Weight and bias: 1 and 0 in the workspace where they are no parameters.
  template <typename Args>
  const void* parameter(const Args& args, std::size_t i) const {
    return desc_.affine ? args.parameters[i] : at(args.workspace, without_affine_[i]);
  }
  void fill_parameters(void* workspace, cudaStream_t stream) const {
    for (std::size_t i = 0; i < 2; ++i) {
      auto* const values = static_cast<float*>(at(workspace, without_affine_[i]));
      check(fill(i == 0 ? 1.0F : 0.0F, values, channels_, stream), where_, "fill");
    }
  }
  // Where no caller wants it, the gradient goes to the workspace, too.
  void* gradient(const BackwardArgs& args, std::size_t i) const {
    return desc_.affine ? args.grad_parameters[i] : at(args.workspace, without_affine_[2 + i]);
  }

  // The own part's results, with statistics to `saved`. Running ones may be null.
  void take_statistics(const ForwardArgs& args, void* running_mean, void* running_var,
                       float* saved) const {
    check(cudnnBatchNormalizationForwardTraining(
              context_->cudnn, kMode, &kOne, &kZero, maps_.get(), args.inputs[0], maps_.get(),
              args.output, per_channel_.get(), parameter(args, 0), parameter(args, 1),
              desc_.momentum, running_mean, running_var, desc_.eps, saved, saved + channels_),
          where_, "cudnnBatchNormalizationForwardTraining");
  }
  void count_batch(const ForwardArgs& args, cudaStream_t stream) const {
    check(increment(static_cast<std::int64_t*>(args.state[kBatches]), stream), where_, "increment");
  }
  void normalize(const ForwardArgs& args, const void* mean, const void* variance) const {
    check(cudnnBatchNormalizationForwardInference(
              context_->cudnn, kMode, &kOne, &kZero, maps_.get(), args.inputs[0], maps_.get(),
              args.output, per_channel_.get(), parameter(args, 0), parameter(args, 1), mean,
              variance, desc_.eps),
          where_, "cudnnBatchNormalizationForwardInference");
  }
  void find_gradients(const BackwardArgs& args, const void* dy, void* dx, void* of_weight,
                      void* of_bias, bool accumulate) const {
    const auto* const saved = static_cast<const float*>(args.saved);
    check(cudnnBatchNormalizationBackward(
              context_->cudnn, kMode, &kOne, &kZero, &kOne, accumulate ? &kOne : &kZero,
              maps_.get(), args.inputs[0], maps_.get(), dy, maps_.get(), dx, per_channel_.get(),
              parameter(args, 0), of_weight, of_bias, desc_.eps, saved, saved + channels_),
          where_, "cudnnBatchNormalizationBackward");
  }

  // ---- over the parts of a divided batch ----

  void plan_parts(WorkspaceLayout& workspace) {
    const Shape& shape = plan_.output.shape;
    const std::size_t pair = 2 * channels_ * sizeof(float);
    norm_ = {.channels = channels_,
             .parts = static_cast<std::uint32_t>(desc_.parts->count()),
             .values = static_cast<double>(shape[0] * shape[2] * shape[3]),
             .eps = desc_.eps};
    own_ = workspace.add(pair);
    gathered_ = workspace.add(pair * norm_.parts);
    factors_ = workspace.add(pair);
    plan_.forward_exchange_bytes = pair;
    // Sums over all parts serve the input's gradient alone.
    if (desc_.needs_grad_input) plan_.backward_exchange_bytes = pair;
  }
  float* floats(void* workspace, std::size_t offset) const {
    return static_cast<float*>(at(workspace, offset));
  }
  void gather(Stream& stream, void* workspace) const {
    desc_.parts->gather(stream, at(workspace, own_), at(workspace, gathered_),
                        plan_.forward_exchange_bytes);
  }

  void train_with_parts(Stream& stream, const ForwardArgs& args, cudaStream_t native) const {
    take_statistics(args, nullptr, nullptr, floats(args.workspace, own_));
    gather(stream, args.workspace);
    auto* const saved = static_cast<float*>(args.saved);
    float* const variance = floats(args.workspace, factors_);
    check(join_statistics(norm_,
                          {.gathered = floats(args.workspace, gathered_),
                           .mean = saved,
                           .inv_std = saved + channels_,
                           .variance = variance,
                           .running_mean = static_cast<float*>(args.state[kRunningMean]),
                           .running_var = static_cast<float*>(args.state[kRunningVar]),
                           .momentum = desc_.momentum},
                          native),
          where_, "join_statistics");
    context_->use(stream);
    normalize(args, saved, variance);
    count_batch(args, native);
  }

  // The sums go to the workspace, since those of earlier batches may be in the gradients.
  void backward_with_parts(Stream& stream, const BackwardArgs& args, cudaStream_t native) const {
    const void* const dy = gradient_of_sum(args, native);
    void* dx = args.grad_inputs[0];
    if (dx == nullptr) {
      ensure(!desc_.needs_grad_input, "{}: planned with an input's gradient", where_);
      dx = at(args.workspace, unwanted_);
    }
    if (!desc_.affine) fill_parameters(args.workspace, native);
    float* const own = floats(args.workspace, own_);
    find_gradients(args, dy, dx, own, own + channels_, false);
    for (std::size_t i = 0; desc_.affine && i < 2; ++i) {
      check(convert_type(DataType::fp32, own + i * channels_, DataType::fp32,
                         args.grad_parameters[i], args.accumulate, channels_, native),
            where_, "convert_type");
    }
    // By the plan, which is the same on all parts: all take part in an exchange.
    if (plan_.backward_exchange_bytes > 0) gather(stream, args.workspace);
    if (args.grad_inputs[0] == nullptr) return;
    const auto* const saved = static_cast<const float*>(args.saved);
    const Shape& shape = plan_.output.shape;
    check(correct_gradient(
              norm_,
              {.type = plan_.output.type,
               .x = args.inputs[0],
               .dx = dx,
               .own = own,
               .gathered = floats(args.workspace, gathered_),
               .weight = static_cast<const float*>(parameter(args, 0)),
               .mean = saved,
               .inv_std = saved + channels_,
               .factors = floats(args.workspace, factors_),
               .count = count_,
               .pixels =
                   is_nhwc(plan_.output) ? 1U : static_cast<std::uint32_t>(shape[2] * shape[3])},
              native),
          where_, "correct_gradient");
  }

  // The gradient before ReLU and sum, which is also the addend's.
  const void* gradient_of_sum(const BackwardArgs& args, cudaStream_t stream) const {
    void* const addend = desc_.fuse_add ? args.grad_inputs[1] : nullptr;
    if (!desc_.fuse_relu) {
      if (addend != nullptr) {
        check(cudaMemcpyAsync(addend, args.grad_output, plan_.output.bytes,
                              cudaMemcpyDeviceToDevice, stream),
              where_, "cudaMemcpyAsync");
      }
      return args.grad_output;
    }
    void* const rectified = addend != nullptr ? addend : at(args.workspace, rectified_);
    check(
        relu_backward(plan_.output.type, args.output, args.grad_output, rectified, count_, stream),
        where_, "relu_backward");
    return rectified;
  }

  ContextPtr context_;
  BatchNorm2dDesc desc_;
  std::string where_;
  std::uint32_t count_ = 0, channels_ = 0;
  Descriptor<cudnnTensorStruct> maps_, per_channel_;
  // Offsets in the workspace: weight, bias and their gradients; the rectified gradient; the input's
  // gradient that no caller wants.
  std::size_t without_affine_[4] = {}, rectified_ = 0, unwanted_ = 0;
  // With parts: two values a channel of the own part and of all, and what is made of them.
  NormParts norm_;
  std::size_t own_ = 0, gathered_ = 0, factors_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const BatchNorm2dDesc& desc) {
  output_shape(desc);
  return std::make_unique<BatchNorm2d>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
