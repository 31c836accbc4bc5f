// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d on own kernels, over plain or channels-last maps of either type, with statistics and
// parameters in fp32. With a map of S bytes they move 3 S forward and 5 S backward. An addend costs
// S more forward; backward its gradient costs S, and what the ReLU behind it cut is read from the
// output, S or, where the addend's gradient is not wanted, 2 S. A ReLU without addend costs
// nothing.
//
// Over the parts of a divided batch the sums of all parts are exchanged, forward and backward.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/batch_norm.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

// The state, in the order of plain_plan().
constexpr std::size_t kRunningMean = 0, kRunningVar = 1, kBatches = 2;

class BatchNorm2d final : public Op {
 public:
  BatchNorm2d(ContextPtr context, const BatchNorm2dDesc& desc)
      : Op(plain_plan(desc)), context_(std::move(context)), desc_(desc) {
    const Shape& shape = plan_.output.shape;
    where_ = where_of(desc);
    plan_.inputs.assign(plan_.inputs.size(), desc.input);
    plan_.output = desc.input;
    element_index(element_count(shape), where_);
    shape_ = {.type = desc.input.type,
              .samples = element_index(shape[0], where_),
              .channels = element_index(shape[1], where_),
              .pixels = element_index(shape[2] * shape[3], where_),
              .channels_last = is_nhwc(desc.input),
              .eps = desc.eps};
    plan_.saved_bytes = 2 * shape_.channels * sizeof(float);
    WorkspaceLayout workspace;
    pieces_ = workspace.add(norm_workspace_bytes(shape_));
    factors_ = workspace.add(2 * shape_.channels * sizeof(float));
    if (desc.parts != nullptr) {
      own_ = workspace.add(exchange_bytes());
      all_ = workspace.add(exchange_bytes() * parts());
    }
    plan_.workspace_bytes = workspace.bytes();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    cudaStream_t const native = context_->use(stream);
    if (args.mode == Mode::training) train(stream, args, native);
    Normalized normalized{.x = args.inputs[0],
                          .addend = desc_.fuse_add ? args.inputs[1] : nullptr,
                          .y = args.output,
                          .by = affine(args),
                          .relu = desc_.fuse_relu};
    if (args.mode == Mode::evaluation) {
      normalized.by.mean = static_cast<const float*>(args.state[kRunningMean]);
      normalized.by.inv_std = nullptr;
      normalized.by.variance = static_cast<const float*>(args.state[kRunningVar]);
    }
    check(normalize(shape_, normalized, native), where_, "normalize");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    cudaStream_t const native = context_->use(stream);
    void* const dx = args.grad_inputs[0];
    ensure(dx != nullptr || !desc_.needs_grad_input, "{}: planned with an input's gradient",
           where_);
    const NormGradient gradient{.x = args.inputs[0],
                                .output = plan_.needs_output ? args.output : nullptr,
                                .grad_output = args.grad_output,
                                .rectified = desc_.fuse_add ? args.grad_inputs[1] : nullptr,
                                .by = affine(args),
                                .relu = desc_.fuse_relu};
    const ParameterGradients of_parameters{
        .weight = desc_.affine ? static_cast<float*>(args.grad_parameters[0]) : nullptr,
        .bias = desc_.affine ? static_cast<float*>(args.grad_parameters[1]) : nullptr,
        .accumulate = args.accumulate};
    auto* const factors = at<float>(args.workspace, factors_);
    check(sum_gradients(shape_, gradient, at<void>(args.workspace, pieces_), of_parameters, factors,
                        own(args.workspace), native),
          where_, "sum_gradients");
    // Sums over all parts serve the input's gradient alone. The description, which is the same on
    // all parts, decides, so that all take part in an exchange.
    if (desc_.parts != nullptr && desc_.needs_grad_input) {
      check(join_gradients(shape_, parts(), gather(stream, args.workspace), gradient.by, factors,
                           native),
            where_, "join_gradients");
    }
    if (dx == nullptr || !desc_.needs_grad_input) return;
    check(input_gradient(shape_, gradient, factors, dx, native), where_, "input_gradient");
  }

 private:
  template <typename T>
  static T* at(void* workspace, std::size_t offset) {
    return static_cast<T*>(static_cast<void*>(static_cast<std::byte*>(workspace) + offset));
  }

  // By the batch's statistics.
  template <typename Args>
  Affine affine(const Args& args) const {
    const auto* const saved = static_cast<const float*>(args.saved);
    const auto parameter = [&](std::size_t i) {
      return desc_.affine ? static_cast<const float*>(args.parameters[i]) : nullptr;
    };
    return {.mean = saved,
            .inv_std = saved + shape_.channels,
            .weight = parameter(0),
            .bias = parameter(1),
            .eps = static_cast<float>(desc_.eps)};
  }

  void train(Stream& stream, const ForwardArgs& args, cudaStream_t native) const {
    auto* const saved = static_cast<float*>(args.saved);
    const Statistics statistics{.mean = saved,
                                .inv_std = saved + shape_.channels,
                                .running_mean = static_cast<float*>(args.state[kRunningMean]),
                                .running_var = static_cast<float*>(args.state[kRunningVar]),
                                .batches = static_cast<std::int64_t*>(args.state[kBatches]),
                                .momentum = desc_.momentum};
    check(take_statistics(shape_, args.inputs[0], at<void>(args.workspace, pieces_), statistics,
                          own(args.workspace), native),
          where_, "take_statistics");
    if (desc_.parts == nullptr) return;
    check(join_statistics(shape_, parts(), gather(stream, args.workspace), statistics, native),
          where_, "join_statistics");
  }

  // ---- over the parts of a divided batch ----

  std::uint32_t parts() const { return static_cast<std::uint32_t>(desc_.parts->count()); }

  std::size_t exchange_bytes() const { return 2 * shape_.channels * sizeof(ChannelSums); }

  // Null: the batch is not divided.
  ChannelSums* own(void* workspace) const {
    return desc_.parts == nullptr ? nullptr : at<ChannelSums>(workspace, own_);
  }

  const ChannelSums* gather(Stream& stream, void* workspace) const {
    auto* const all = at<ChannelSums>(workspace, all_);
    desc_.parts->gather(stream, own(workspace), all, exchange_bytes());
    context_->use(stream);
    return all;
  }

  ContextPtr context_;
  BatchNorm2dDesc desc_;
  std::string where_;
  NormShape shape_;
  // Offsets in the workspace: sums of pieces, and the factors of the input's gradient; the sums of
  // the own part and of all.
  std::size_t pieces_ = 0, factors_ = 0, own_ = 0, all_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const BatchNorm2dDesc& desc) {
  return std::make_unique<BatchNorm2d>(std::move(context), desc);
}

}  // namespace ddpbench::ops::cuda
