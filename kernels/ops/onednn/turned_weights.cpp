// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's input as a convolution forward, for which oneDNN has its fastest
// loops. Weights are turned for it:
//
//   turned[i, o, kh, kw] = w[o, i, KH - 1 - kh, KW - 1 - kw],  dx = dy convolved with turned
//
// A strided 1x1 convolution reads every stride-th pixel. Its gradient is computed on a map of those
// pixels and spread over dx, with zeros between. FLOPs and bytes are those of the direct way; the
// workspace:
//
//   [turned weights in bf16][the map of those pixels][primitives]
#include <algorithm>

#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::convolution_forward;

bool is_strided(const Window2d& window) { return window.stride_h > 1 || window.stride_w > 1; }

// Of one dimension: what surrounds dy, so that each input element gets all that it has reached.
struct Pads {
  std::int64_t begin, end;
};
Pads pads_of(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t dilation,
             std::int64_t pad) {
  const std::int64_t reach = dilation * (kernel - 1), begin = reach - pad;
  return {begin, in - out - begin + reach};
}

// Nothing for padding beyond the kernel.
std::optional<Forward::primitive_desc> plan_forward(const Context& context, const Conv2dDesc& desc,
                                                    const TensorLayout& target,
                                                    const TensorLayout& result) {
  const Window2d& window = desc.window;
  const Shape& to = result.shape;
  const Pads h = pads_of(to[2], target.shape[2], window.kernel_h, desc.dilation.h, window.pad_h);
  const Pads w = pads_of(to[3], target.shape[3], window.kernel_w, desc.dilation.w, window.pad_w);
  if (std::min({h.begin, h.end, w.begin, w.end}) < 0) return std::nullopt;
  const Desc turned({to[1], target.shape[1], window.kernel_h, window.kernel_w},
                    dnnl::memory::data_type::bf16, dnnl::memory::format_tag::any);
  return plan_primitive<Forward>(
      context.engine, user_scratchpad(), dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, to_desc(target), turned, Desc(), to_desc(result),
      Shape{1, 1}, Shape{desc.dilation.h - 1, desc.dilation.w - 1}, Shape{h.begin, w.begin},
      Shape{h.end, w.end});
}

// Whether the elements of a kernel lie at multiples of its strides.
bool has_taps(const Desc& weight) {
  const std::optional<Blocking> blocking = blocking_of(weight);
  return blocking && std::ranges::all_of(blocking->inner_dims, [](auto d) { return d < 2; });
}

class TurnedWeights : public ConvGradient {
 public:
  // `result` is dx, or the map of the pixels that a strided convolution reads.
  TurnedWeights(const Context& context, const Window2d& window, const TensorLayout& source,
                const TensorLayout& result, const Desc& weight,
                const Forward::primitive_desc& forward)
      : context_(&context),
        window_(window),
        source_(source),
        result_(result),
        weight_strides_(blocking_of(weight)->strides),
        turned_strides_(blocking_of(forward.weights_desc())->strides) {
    const Desc turned = forward.weights_desc();
    forward_.emplace(
        context, Forward(forward), forward.scratchpad_desc(),
        std::vector<Operand>{{DNNL_ARG_SRC, forward.src_desc(), forward.src_desc()},
                             {DNNL_ARG_WEIGHTS, turned, turned},
                             {DNNL_ARG_DST, forward.dst_desc(), forward.dst_desc(), true}});
    const auto tap = [](const Desc& all) {
      return all.submemory_desc({dims_of(all)[0], dims_of(all)[1], 1, 1}, {0, 0, 0, 0});
    };
    turn_.emplace(
        make_reorder_launch(context, tap(weight.permute_axes({1, 0, 2, 3})), tap(turned)));
    result_offset_ = align_up(turned.get_size());
    main_offset_ = result_offset_ + (is_strided(window) ? align_up(result.bytes) : 0);
    workspace_bytes_ =
        main_offset_ + std::max(forward_->workspace_bytes(), turn_->workspace_bytes());
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const void* weight, const void* dy, void* dx, void* workspace) const override {
    auto* const base = static_cast<std::byte*>(workspace);
    turn(static_cast<const float*>(weight), static_cast<BFloat16*>(workspace), base + main_offset_);
    void* const result = is_strided(window_) ? base + result_offset_ : dx;
    forward_->run({dy, workspace, result}, base + main_offset_);
    if (result != dx) spread(static_cast<const BFloat16*>(result), static_cast<BFloat16*>(dx));
  }

 private:
  void turn(const float* weight, BFloat16* turned, void* workspace) const {
    const auto at = [](const Shape& strides, std::int64_t h, std::int64_t w) {
      return h * strides[2] + w * strides[3];
    };
    for (std::int64_t h = 0; h < window_.kernel_h; ++h)
      for (std::int64_t w = 0; w < window_.kernel_w; ++w)
        turn_->run(
            {weight + at(weight_strides_, h, w),
             turned + at(turned_strides_, window_.kernel_h - 1 - h, window_.kernel_w - 1 - w)},
            workspace);
  }

  // Writes every line of dx: [sample and block of channels][row][column][channel of the block].
  void spread(const BFloat16* result, BFloat16* dx) const {
    const std::int64_t block = channel_block(source_), height = source_.shape[2],
                       width = source_.shape[3], rows = result_.shape[2],
                       columns = result_.shape[3];
    const std::int64_t lines = source_.shape[0] * (source_.shape[1] / block) * height;
    const auto fill = [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line) {
        BFloat16* const to = dx + line * width * block;
        std::fill_n(to, width * block, BFloat16{});
        const std::int64_t h = line % height;
        if (h % window_.stride_h != 0) continue;
        const std::int64_t row = line / height * rows + h / window_.stride_h;
        const BFloat16* const from = result + row * columns * block;
        for (std::int64_t w = 0; w < columns; ++w)
          std::copy_n(from + w * block, block, to + w * window_.stride_w * block);
      }
    };
    cpu::parallel_shares(context_->threads, lines, 1, fill);
  }

  const Context* context_;
  Window2d window_;
  TensorLayout source_, result_;
  Shape weight_strides_, turned_strides_;  // in elements, of whole blocks
  std::optional<Launch> forward_, turn_;   // turn_: of one element of the kernel
  std::size_t result_offset_ = 0, main_offset_ = 0, workspace_bytes_ = 0;
};

// Where a strided 1x1 convolution's pixels lie: null if one lies in the padding.
std::optional<TensorLayout> map_of_pixels(const Window2d& window, const TensorLayout& source,
                                          const TensorLayout& target) {
  const std::int64_t block = channel_block(source), rows = target.shape[2],
                     columns = target.shape[3];
  if (window.kernel_h * window.kernel_w > 1 || block == 0) return std::nullopt;
  if ((rows - 1) * window.stride_h >= source.shape[2] ||
      (columns - 1) * window.stride_w >= source.shape[3])
    return std::nullopt;
  return image_layout({source.shape[0], source.shape[1], rows, columns}, block, DataType::bf16);
}

}  // namespace

std::unique_ptr<ConvGradient> plan_turned_weights(const Context& context, const Conv2dDesc& desc,
                                                  const TensorLayout& source,
                                                  const TensorLayout& target, const Desc& weight) {
  const bool is_bf16 = source.type == DataType::bf16 && target.type == DataType::bf16;
  if (desc.groups > 1 || !is_bf16 || !has_taps(weight)) return nullptr;
  if (source.shape[1] % 16 != 0 || target.shape[1] % 16 != 0) return nullptr;
  const auto result = is_strided(desc.window) ? map_of_pixels(desc.window, source, target) : source;
  if (!result) return nullptr;
  try {
    const auto forward = plan_forward(context, desc, target, *result);
    if (!forward || is_plain_loop(*forward) || !has_taps(forward->weights_desc())) return nullptr;
    return std::make_unique<TurnedWeights>(context, desc.window, source, *result, weight, *forward);
  } catch (const dnnl::error&) {  // the direct way serves
    return nullptr;
  }
}

}  // namespace ddpbench::ops::onednn
