// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d on the own kernels (kernels/ops/cpu/max_pool.h), over layout and type that the input
// has.
//
// oneDNN's pooling with its separate ReLU takes 2.7 times as long on SimpleCNN's maps.
#include <algorithm>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/max_pool.h"

namespace ddpbench::ops::cpu {
namespace {

class MaxPool2d : public Op {
 public:
  MaxPool2d(Team team, const MaxPool2dDesc& desc) : Op(plain_plan(desc)), team_(team) {
    const Shape& out = plan_.output.shape;
    std::int64_t block = channel_block(desc.input);
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
    kernel_ = choose_pool_kernel(geometry_, team_.simd, type);
    groups_ = ceil_div(channels_, block);
    planes_ = out[0] * groups_;
    plane_bytes_ = static_cast<std::size_t>(geometry_.output_elements()) * element_bytes_;
    winner_bytes_ = geometry_.output_elements() * kernel_.winner_bytes;
    plan_.saved_bytes = static_cast<std::size_t>(planes_ * winner_bytes_);
    transposed_ = desc.to_plain && block > 1;
    plan_.output = desc.to_plain ? TensorLayout::plain(out, type) : image_layout(out, block, type);
    if (transposed_)
      plan_.workspace_bytes = static_cast<std::size_t>(team_.threads) * round_up(plane_bytes_, 64);
    plan_.description += fmt::format(" ({})", to_string(team_.simd));
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
      with_element(plan_.output.type, [&]<typename T>(T) {
        blocked_to_maps(pixels(), geometry_.inner, reinterpret_cast<const T*>(pooled),
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
        with_element(plan_.output.type, [&]<typename T>(T) {
          maps_to_blocked(pixels(), geometry_.inner,
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
        planes_ * geometry_.input_elements() < kMinParallelElements ? 1 : team_.threads;
    parallel_shares(threads, planes_, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) body(thread, plane);
    });
  }

  std::byte* scratch(void* workspace, int thread) const {
    return static_cast<std::byte*>(workspace) +
           static_cast<std::size_t>(thread) * round_up(plane_bytes_, 64);
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

  Team team_;
  PoolGeometry geometry_;
  PoolKernel kernel_;
  std::int64_t channels_ = 0, groups_ = 0, planes_ = 0, winner_bytes_ = 0;
  std::size_t plane_bytes_ = 0, element_bytes_ = 0;
  bool transposed_ = false;
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const MaxPool2dDesc& desc) {
  return std::make_unique<MaxPool2d>(team, desc);
}

}  // namespace ddpbench::ops::cpu
