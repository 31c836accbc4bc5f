// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d and max_pool2d in one, on own kernels (few_channels.h), for a first layer of few channels:
// the map between the two, the largest of such a network, is never in memory.
//
// Taken where it is faster than the two apart, by a trial of both directions that is remembered as
// the choice of algorithms is; untried where own kernels are.
#include "base/error.h"
#include "kernels/ops/cuda/kernels/pool_kernels.h"
#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/library/pair_trial.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/planned_op.h"

namespace ddpbench::ops::cuda {
namespace {

class Conv2dMaxPool2d final : public PlannedOp {
 public:
  // `shape` has the pool in it.
  Conv2dMaxPool2d(ContextPtr context, const Conv2dDesc& conv, const MaxPool2dDesc& pool,
                  const FewChannelShape& shape, std::string where)
      : PlannedOp(plain_plan(conv)),
        context_(std::move(context)),
        shape_(shape),
        relu_(pool.fuse_relu),
        where_(std::move(where)) {
    plan_.inputs = {same_memory_or(conv.input, nhwc_layout(conv.input.shape, shape.type))};
    // FLOPs are those of the pixels that there are windows over.
    const double pixels = static_cast<double>(element_count(plan_.output.shape));
    plan_.output =
        nhwc_layout({shape.batch, shape.out_channels, shape.out_h, shape.out_w}, shape.type);
    const auto outputs = static_cast<std::size_t>(element_count(plan_.output.shape));
    const double pooled = static_cast<double>(outputs) * shape.pool * shape.pool;
    plan_.forward_flops *= pooled / pixels;
    plan_.backward_flops *= pooled / pixels;
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    plan_.needs_output = false;
    plan_.saved_bytes = outputs;  // a winner is a byte
    plan_.workspace_bytes = few_channel_workspace_bytes(shape);
    plan_.description += fmt::format(" {} (own kernel)", describe(pool));
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    FewChannelForward own{};
    own.x = args.inputs[0];
    own.w = static_cast<const float*>(args.parameters[0]);
    own.bias = has_bias() ? static_cast<const float*>(args.parameters[1]) : nullptr;
    own.y = args.output;
    own.winners = static_cast<std::uint8_t*>(args.saved);
    own.relu = relu_;
    check(few_channel_forward(shape_, own, context_->use(stream)), where_, "few_channel_forward");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    FewChannelGradients own{};
    own.x = args.inputs[0];
    own.dy = args.grad_output;
    own.winners = static_cast<const std::uint8_t*>(args.saved);
    own.dw = static_cast<float*>(args.grad_parameters[0]);
    own.dbias = has_bias() ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    own.accumulate = args.accumulate;
    own.workspace = args.workspace;
    check(few_channel_gradients(shape_, own, context_->use(stream)), where_,
          "few_channel_gradients");
  }

 private:
  bool has_bias() const { return plan_.parameters.size() > 1; }

  ContextPtr context_;
  FewChannelShape shape_;
  bool relu_;
  std::string where_;
};

// Whether windows lie side by side, `extent` by `extent`, from the map's corner on.
bool is_tiling(const MaxPool2dDesc& pool, std::int64_t extent) {
  return pool.kernel_h == extent && pool.kernel_w == extent && pool.stride_h == extent &&
         pool.stride_w == extent && pool.pad_h == 0 && pool.pad_w == 0;
}

// The convolution's shape with the pool in it, where there are kernels for both.
std::optional<FewChannelShape> pooled_shape(const ConvolutionShape& conv,
                                            const MaxPool2dDesc& pool) {
  constexpr std::uint32_t kPool = 2;
  // A ReLU between the two would be the pool's already.
  const bool fits = conv.few_channels && !conv.needs_grad_input && !conv.relu && !pool.bias &&
                    is_tiling(pool, kPool);
  if (!fits) return std::nullopt;
  FewChannelShape shape = *conv.few_channels;
  shape.pool = kPool;
  shape.out_h /= kPool, shape.out_w /= kPool;
  const bool has_output = shape.out_h > 0 && shape.out_w > 0;  // else the pool says what is wrong
  return has_output && has_few_channel_kernels(shape) ? std::optional(shape) : std::nullopt;
}

bool is_faster(const ContextPtr& context, Op& both, const Conv2dDesc& conv,
               const MaxPool2dDesc& pool, const std::string& where) {
  const std::unique_ptr<Op> first = make_conv2d(context, conv);
  MaxPool2dDesc behind = pool;
  behind.input = first->output_layout();
  const std::unique_ptr<Op> second = make_max_pool2d(context, behind);
  return is_faster_in_one(*context, both, *first, *second, where);
}

// As choose_algorithm decides between own kernels and the library's algorithms.
bool is_chosen(const ContextPtr& context, Op& both, const Conv2dDesc& conv,
               const MaxPool2dDesc& pool, const std::string& key, const std::string& where) {
  const CudaBackendOptions& options = context->options;
  if (options.deterministic || options.convolutions == ConvolutionKernels::own) return true;
  if (const auto known = context->algorithms.find(key)) return is_own(*known);
  try {
    const bool faster = is_faster(context, both, conv, pool, where);
    context->algorithms.store(key, {.algorithm = faster ? kOwnKernel : 0});
    return faster;
  } catch (const NoPlanningMemory&) {
  } catch (const DeviceError&) {
    // A call that cannot be recorded, say. If it is the GPU that fails, the next call tells.
    static_cast<void>(cudaGetLastError());
  }
  return true;
}

}  // namespace

std::unique_ptr<Op> make_conv2d_max_pool2d(ContextPtr context, const Conv2dDesc& conv,
                                           const MaxPool2dDesc& pool) {
  output_shape(conv);
  if (context->options.convolutions == ConvolutionKernels::library) return nullptr;
  const std::string where =
      fmt::format("{} {} on {}", describe(conv), describe(pool), to_string(conv.input.shape));
  const ConvolutionShape shape(*context, conv, where);
  const std::optional<FewChannelShape> pooled = pooled_shape(shape, pool);
  if (!pooled) return nullptr;
  element_index(shape.x_count, where);
  element_index(shape.y_count, where);
  auto both = std::make_unique<Conv2dMaxPool2d>(context, conv, pool, *pooled, where);
  const std::string key =
      fmt::format("{}|{}|pool kernels {}", shape.key, describe(pool), kPoolKernels);
  return is_chosen(context, *both, conv, pool, key, where) ? std::move(both) : nullptr;
}

}  // namespace ddpbench::ops::cuda
