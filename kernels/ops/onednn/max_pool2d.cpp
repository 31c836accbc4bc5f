// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d on the own kernels (kernels/ops/cpu/max_pool.h), over layout and type that the input
// has.
//
// oneDNN's pooling with its separate ReLU takes 2.7 times as long on SimpleCNN's maps.
#include <algorithm>

#include "base/error.h"
#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/cpu/max_pool.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/cpu/transpose.h"
#include "kernels/ops/onednn/launch.h"
#include "kernels/ops/onednn/layout.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::onednn {
namespace {

class MaxPool2d : public Op {
 public:
  // With `to_plain` the output is plain, with any layout of the input.
  MaxPool2d(ContextPtr context, const MaxPool2dDesc& desc, bool to_plain)
      : Op(plain_plan(desc)), context_(std::move(context)) {
    const Shape& out = plan_.output.shape;
    std::int64_t block = channel_block(to_desc(desc.input));
    if (block > 0) plan_.inputs = {desc.input};
    if (block == 0) block = 1;  // not a layout of these kernels: read it plain
    channels_ = out[1];
    geometry_ = {.height = desc.input.shape[2],
                 .width = desc.input.shape[3],
                 .out_h = out[2],
                 .out_w = out[3],
                 .inner = block,
                 .window = desc.window,
                 .relu = desc.fuse_relu};
    const DataType type = plan_.inputs[0].type;
    element_bytes_ = size_of(type);
    kernel_ = cpu::choose_pool_kernel(geometry_, context_->simd, type);
    groups_ = ceil_div(channels_, block);
    planes_ = out[0] * groups_;
    plane_bytes_ = static_cast<std::size_t>(geometry_.output_elements()) * element_bytes_;
    winner_bytes_ = geometry_.output_elements() * kernel_.winner_bytes;
    plan_.saved_bytes = static_cast<std::size_t>(planes_ * winner_bytes_);
    transposed_ = to_plain && block > 1;
    plan_.output =
        to_plain ? TensorLayout::plain(out, type) : to_layout(image_desc(out, block, type));
    if (transposed_)
      plan_.workspace_bytes = static_cast<std::size_t>(context_->threads) * align_up(plane_bytes_);
    plan_.description += fmt::format(" ({})", to_string(context_->simd));
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* const x = static_cast<const std::byte*>(args.inputs[0]);
    auto* const y = static_cast<std::byte*>(args.output);
    for_each_plane([&](int thread, std::int64_t plane) {
      std::byte* const pooled = transposed_ ? scratch(args.workspace, thread)
                                            : y + bytes(plane * geometry_.output_elements());
      kernel_.forward(geometry_, x + bytes(plane * geometry_.input_elements()), pooled,
                      static_cast<std::byte*>(args.saved) + plane * winner_bytes_);
      if (!transposed_) return;
      cpu::with_element(plan_.output.type, [&](auto element) {
        using T = decltype(element);
        cpu::blocked_to_maps(pixels(), geometry_.inner, reinterpret_cast<const T*>(pooled),
                             reinterpret_cast<T*>(y + bytes(plain_offset(plane))),
                             plane_channels(plane));
      });
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* const dy = static_cast<const std::byte*>(args.grad_output);
    auto* const dx = static_cast<std::byte*>(args.grad_inputs[0]);
    for_each_plane([&](int thread, std::int64_t plane) {
      const std::byte* grad = dy + bytes(plane * geometry_.output_elements());
      if (transposed_) {
        std::byte* const gathered = scratch(args.workspace, thread);
        cpu::with_element(plan_.output.type, [&](auto element) {
          using T = decltype(element);
          cpu::maps_to_blocked(pixels(), geometry_.inner,
                               reinterpret_cast<const T*>(dy + bytes(plain_offset(plane))),
                               reinterpret_cast<T*>(gathered), plane_channels(plane));
        });
        grad = gathered;
      }
      kernel_.backward(geometry_, grad,
                       static_cast<const std::byte*>(args.saved) + plane * winner_bytes_,
                       dx + bytes(plane * geometry_.input_elements()));
    });
  }

 private:
  // A plane is one sample's group of `inner` channels, the kernels' unit of work.
  template <typename Body>
  void for_each_plane(const Body& body) const {
    const int threads =
        planes_ * geometry_.input_elements() < cpu::kMinParallelElements ? 1 : context_->threads;
    cpu::parallel_shares(threads, planes_, 1,
                         [&](int thread, std::int64_t begin, std::int64_t end) {
                           for (std::int64_t plane = begin; plane < end; ++plane)
                             body(thread, plane);
                         });
  }

  std::byte* scratch(void* workspace, int thread) const {
    return static_cast<std::byte*>(workspace) +
           static_cast<std::size_t>(thread) * align_up(plane_bytes_);
  }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * element_bytes_;
  }
  std::int64_t pixels() const { return geometry_.out_h * geometry_.out_w; }
  // Where a plane's first channel begins in a plain output, and how many of its channels are real.
  std::int64_t plain_offset(std::int64_t plane) const {
    const std::int64_t sample = plane / groups_, group = plane % groups_;
    return (sample * channels_ + group * geometry_.inner) * pixels();
  }
  std::int64_t plane_channels(std::int64_t plane) const {
    return std::min(geometry_.inner, channels_ - plane % groups_ * geometry_.inner);
  }

  ContextPtr context_;
  cpu::PoolGeometry geometry_;
  cpu::PoolKernel kernel_;
  std::int64_t channels_ = 0, groups_ = 0, planes_ = 0, winner_bytes_ = 0;
  std::size_t plane_bytes_ = 0, element_bytes_ = 0;
  bool transposed_ = false;
};

}  // namespace

std::unique_ptr<Op> make_max_pool2d(ContextPtr context, const MaxPool2dDesc& desc, bool to_plain) {
  output_shape(desc);
  const Context& c = *context;
  return plan_with_onednn(
      c, fmt::format("{} on {}", describe(desc), to_string(desc.input.shape)),
      [&] { return std::make_unique<MaxPool2d>(std::move(context), desc, to_plain); });
}

std::unique_ptr<Op> make_op(ContextPtr context, const MaxPool2dDesc& desc) {
  return make_max_pool2d(std::move(context), desc, false);
}

}  // namespace ddpbench::ops::onednn
