// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d on the own Winograd kernels (kernels/ops/cpu/winograd.h). FLOPs are counted as those of
// direct convolution, as in conv2d.cpp.
//
// Maps and weights have the layouts that oneDNN's direct convolution prefers, so that its
// neighbours need no reorder. Biases are copied, because the kernels read whole blocks.
#include <algorithm>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/elementwise.h"
#include "kernels/ops/cpu/winograd.h"

namespace ddpbench::ops::cpu {

bool has_winograd(const Conv2dDesc& desc) {
  const Window2d& w = desc.window;
  return desc.groups == 1 && desc.dilation == Dilation2d{} && w.kernel_h == 3 && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && w.pad_h <= 2 && w.pad_w <= 2;
}

cpu::WinogradShape winograd_shape(const Conv2dDesc& desc, std::int64_t block) {
  const Shape& in = desc.input.shape;
  const Shape out = output_shape(desc);
  return {.batch = in[0],
          .in_blocks = ceil_div(in[1], block),
          .height = in[2],
          .width = in[3],
          .out_blocks = ceil_div(out[1], block),
          .out_h = out[2],
          .out_w = out[3],
          .pad_h = desc.window.pad_h,
          .pad_w = desc.window.pad_w};
}

namespace {

class WinogradConv2d : public Op {
 public:
  WinogradConv2d(Team team, std::size_t l2_bytes, DataType maps, const Conv2dDesc& desc)
      : Op(plain_plan(desc)),
        team_(team),
        desc_(desc),
        block_(Winograd::block(team.simd)),
        type_(team.simd == SimdLevel::avx512 ? maps : DataType::fp32),
        winograd_(team, winograd_shape(desc, block_), l2_bytes, type_) {
    plan_.inputs = {image_layout(desc.input.shape, block_, type_)};
    plan_.output = image_layout(plan_.output.shape, block_, type_);
    TensorLayout& weight = plan_.parameters[0].layout;
    weight.tag = block_ == 16 ? "ABcd16b16a" : "ABcd8b8a";
    weight.bytes =
        sizeof(float) * 9 * whole_blocks(desc.input.shape[1]) * whole_blocks(desc.out_channels);
    plan_.description += fmt::format(" (own wino_4x3:{})", to_string(team.simd));
    lay_out_workspace();
  }

  void forward(Stream&, const ForwardArgs& args) override {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    float* const bias = desc_.bias ? biases(workspace) : nullptr;
    if (bias) copy_biases(static_cast<const float*>(args.parameters[1]), bias);
    winograd_.forward(args.inputs[0], static_cast<const float*>(args.parameters[0]), bias,
                      desc_.fuse_relu, args.output, workspace + main_offset_);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    const void* dy = args.grad_output;
    if (desc_.fuse_relu) {
      relu_backward(team_, type_, args.output, dy, args.workspace,
                    static_cast<std::int64_t>(plan_.output.bytes / size_of(type_)));
      dy = args.workspace;
    }
    auto* const db = desc_.bias ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    float* const sums = db ? biases(workspace) : nullptr;
    if (db && args.accumulate) copy_biases(db, sums);
    winograd_.backward_weights(args.inputs[0], dy, static_cast<float*>(args.grad_parameters[0]),
                               sums, args.accumulate, workspace + main_offset_);
    if (db) std::copy_n(sums, desc_.out_channels, db);
    if (desc_.needs_grad_input && !args.grad_inputs.empty() && args.grad_inputs[0])
      winograd_.backward_data(dy, static_cast<const float*>(args.parameters[0]),
                              args.grad_inputs[0], workspace + main_offset_);
  }

 private:
  // The workspace: [masked output gradient][biases in whole blocks][a pass].
  void lay_out_workspace() {
    biases_offset_ = desc_.fuse_relu ? round_up(plan_.output.bytes, 64) : 0;
    main_offset_ =
        biases_offset_ +
        (desc_.bias ? round_up(sizeof(float) * whole_blocks(desc_.out_channels), 64) : 0);
    std::size_t pass =
        std::max(winograd_.forward_workspace_bytes(), winograd_.backward_weights_workspace_bytes());
    if (desc_.needs_grad_input) pass = std::max(pass, winograd_.backward_data_workspace_bytes());
    plan_.workspace_bytes = main_offset_ + pass;
  }
  std::size_t whole_blocks(std::int64_t channels) const {
    return static_cast<std::size_t>(round_up(channels, block_));
  }
  float* biases(std::byte* workspace) const {
    return reinterpret_cast<float*>(workspace + biases_offset_);
  }
  void copy_biases(const float* from, float* to) const {
    std::fill_n(std::copy_n(from, desc_.out_channels, to),
                whole_blocks(desc_.out_channels) - static_cast<std::size_t>(desc_.out_channels),
                0.0F);
  }

  Team team_;
  Conv2dDesc desc_;
  std::int64_t block_;
  DataType type_;  // of the maps
  Winograd winograd_;
  std::size_t biases_offset_ = 0, main_offset_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_winograd_conv2d(Team team, std::size_t l2_bytes, DataType maps,
                                         const Conv2dDesc& desc) {
  const std::string where = where_of(desc);
  if (!has_winograd(desc) || team.simd == SimdLevel::portable)
    throw DeviceError(
        fmt::format("no Winograd for {} with {} instructions", where, to_string(team.simd)));
  return std::make_unique<WinogradConv2d>(team, l2_bytes, maps, desc);
}

}  // namespace ddpbench::ops::cpu
