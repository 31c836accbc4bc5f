// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d, channels last. 2 * batch * out * oh * ow * in * kh * kw FLOPs forward, the same for each
// gradient; bytes are those of input, output and weights, once each. Each pass is tuned separately
// (convolution_tuning.h).
#include "base/error.h"
#include "kernels/ops/cuda/library/convolution_pass.h"
#include "kernels/ops/cuda/library/convolution_tuning.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

class Conv2d final : public PlannedOp {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc, const std::string& where)
      : PlannedOp(plain_plan(desc)), context_(std::move(context)), shape_(*context_, desc, where) {
    plan_.inputs = {same_memory_or(desc.input, nhwc_layout(desc.input.shape, shape_.type))};
    plan_.output = nhwc_layout(plan_.output.shape, shape_.type);
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    element_index(shape_.y_count, where);
    element_index(shape_.x_count, where);
    tune_passes();
    plan_.reads_bf16_weights = shape_.type == DataType::bf16 && (data_ || !forward_->is_own());
    // FilterPass leaves the rectified gradient in its part.
    WorkspaceLayout backward;
    backward.add(filter_->workspace_bytes());
    if (data_) data_workspace_ = backward.add(data_->workspace_bytes());
    plan_.workspace_bytes = std::max(forward_->workspace_bytes(), backward.bytes());
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    forward_->run(args, context_->use(stream));
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const void* const dy = filter_->run(args, native);
    if (!data_ || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    data_->run(args, dy, static_cast<std::byte*>(args.workspace) + data_workspace_);
  }

 private:
  void tune_passes() {
    const AlgorithmChoice forward = tune_convolution(*context_, shape_, ConvolutionPass::forward);
    const AlgorithmChoice filter =
        tune_convolution(*context_, shape_, ConvolutionPass::backward_filter);
    forward_.emplace(*context_, shape_, forward);
    filter_.emplace(*context_, shape_, filter);
    if (shape_.needs_grad_input) {
      data_.emplace(*context_, shape_,
                    tune_convolution(*context_, shape_, ConvolutionPass::backward_data));
    }
    const auto name = [&](const AlgorithmChoice& choice) {
      if (is_own(choice)) return std::string("own kernel");
      return fmt::format("cudnn {} algorithm {}{}", precision_name(context_->options.precision),
                         choice.algorithm, choice.fused ? " fused" : "");
    };
    plan_.description += fmt::format(" ({}", name(forward));
    if (is_own(forward) != is_own(filter)) {
      plan_.description += fmt::format(", weight gradient {}", name(filter));
    }
    plan_.description += ")";
  }

  ContextPtr context_;
  ConvolutionShape shape_;
  std::optional<ForwardPass> forward_;
  std::optional<FilterPass> filter_;
  std::optional<DataPass> data_;
  std::size_t data_workspace_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc) {
  output_shape(desc);
  const std::string where = fmt::format("{} on {}", describe(desc), to_string(desc.input.shape));
  return std::make_unique<Conv2d>(std::move(context), desc, where);
}

}  // namespace ddpbench::ops::cuda
