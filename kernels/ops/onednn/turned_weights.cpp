// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's input as convolutions forward, for which oneDNN has its fastest
// loops. With stride 1 it is one, of the output's gradient with turned weights:
//
//   turned[i, o, kh, kw] = w[o, i, KH - 1 - kh, KW - 1 - kw],  dx = dy convolved with turned
//
// With other strides each phase of dx, its pixels (a + i * stride_h, b + j * stride_w), is reached
// by the elements of the kernel that lie stride_h and stride_w apart. So it is the result of a
// convolution of its own, of stride 1 with those elements, which is then spread over dx. Pixels
// that none reaches get zeros. FLOPs and bytes are those of the direct way; the workspace:
//
//   [turned weights of a phase, in bf16][the phase][primitives]
#include <algorithm>

#include "base/ranges.h"
#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Forward = dnnl::convolution_forward;

// A phase in one dimension. Its t-th element is the kernel's last - t * stride.
struct Phase {
  std::int64_t first, pixels;         // of dx
  std::int64_t elements, last;        // of the kernel: how many reach it, and which is the last
  std::int64_t dilation, begin, end;  // of the convolution: pads before and behind dy
};

// The phase from pixel `first` on of `in` pixels, for an output of `out`.
Phase phase_of(std::int64_t first, std::int64_t in, std::int64_t out, std::int64_t kernel,
               std::int64_t stride, std::int64_t dilation, std::int64_t pad) {
  Phase phase = {.first = first, .pixels = ceil_div(in - first, stride), .dilation = 1};
  for (std::int64_t k = 0; k < kernel; ++k) {
    if ((first + pad - k * dilation) % stride != 0) continue;
    ++phase.elements;
    phase.last = k;
  }
  if (stride == 1) phase.dilation = dilation;
  // Pixel `first` reads dy from here on, as the last element of the kernel reaches it.
  phase.begin = (phase.last * dilation - pad - first) / stride;
  phase.end = phase.pixels - out - phase.begin + (phase.elements - 1) * phase.dilation;
  return phase;
}

// Whether the elements of a kernel lie at multiples of its strides.
bool has_taps(const Desc& weight) {
  const std::optional<Blocking> blocking = blocking_of(weight);
  return blocking && std::ranges::all_of(blocking->inner_dims, [](auto d) { return d < 2; });
}

bool is_strided(const Window2d& window) { return window.stride_h > 1 || window.stride_w > 1; }

// The convolution of one phase of dx.
struct PhaseConvolution {
  Phase h, w;
  Shape turned_strides;  // of its weights, in elements, of whole blocks
  std::size_t turned_bytes, result_bytes;
  Launch turn;  // one element of the kernel
  Launch forward;

  std::size_t scratch_bytes() const {
    return std::max(turn.workspace_bytes(), forward.workspace_bytes());
  }
};

// Nothing for negative padding, and where the library has only a plain loop.
std::optional<PhaseConvolution> plan_phase(const Context& context, const Phase& h, const Phase& w,
                                           const TensorLayout& source, const TensorLayout& target,
                                           const TensorLayout& result, const Desc& weight) {
  if (std::min({h.begin, h.end, w.begin, w.end}) < 0) return std::nullopt;
  const Desc any({source.shape[1], target.shape[1], h.elements, w.elements},
                 dnnl::memory::data_type::bf16, dnnl::memory::format_tag::any);
  const Desc dy = to_desc(target), dx = to_desc(result);
  const auto plan = plan_primitive<Forward>(
      context.engine, user_scratchpad(), dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, dy, any, Desc(), dx, Shape{1, 1},
      Shape{h.dilation - 1, w.dilation - 1}, Shape{h.begin, w.begin}, Shape{h.end, w.end});
  const Desc turned = plan.weights_desc();
  if (is_plain_loop(plan) || !has_taps(turned)) return std::nullopt;
  const auto tap = [](const Desc& all) {
    return all.submemory_desc({dims_of(all)[0], dims_of(all)[1], 1, 1}, {0, 0, 0, 0});
  };
  return PhaseConvolution{
      h,
      w,
      blocking_of(turned)->strides,
      align_up(turned.get_size()),
      align_up(result.bytes),
      make_reorder_launch(context, tap(weight.permute_axes({1, 0, 2, 3})), tap(turned)),
      Launch(context, Forward(plan), plan.scratchpad_desc(),
             {{DNNL_ARG_SRC, dy, dy},
              {DNNL_ARG_WEIGHTS, turned, turned},
              {DNNL_ARG_DST, dx, dx, true}})};
}

class TurnedWeights : public ConvGradient {
 public:
  // `is_whole`: the phases have all pixels.
  TurnedWeights(const Context& context, const Window2d& window, const TensorLayout& source,
                const Desc& weight, std::vector<PhaseConvolution> phases, bool is_whole)
      : context_(&context),
        window_(window),
        source_(source),
        weight_strides_(blocking_of(weight)->strides),
        phases_(std::move(phases)),
        is_whole_(is_whole) {
    constexpr std::size_t kNone = 0;
    result_offset_ = main_offset_ = largest(phases_, kNone, &PhaseConvolution::turned_bytes);
    if (is_strided(window))
      main_offset_ += largest(phases_, kNone, &PhaseConvolution::result_bytes);
    workspace_bytes_ = main_offset_ + largest(phases_, kNone, &PhaseConvolution::scratch_bytes);
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const void* weight, const void* dy, void* dx, void* workspace) const override {
    auto* const base = static_cast<std::byte*>(workspace);
    auto* const pixels = static_cast<BFloat16*>(dx);
    const auto clear = [pixels](std::int64_t begin, std::int64_t end) {
      std::fill(pixels + begin, pixels + end, BFloat16{});
    };
    if (!is_whole_) cpu::parallel_elements(context_->threads, element_count(source_.shape), clear);
    for (const PhaseConvolution& phase : phases_) {
      turn(phase, static_cast<const float*>(weight), static_cast<BFloat16*>(workspace),
           base + main_offset_);
      void* const result = is_strided(window_) ? base + result_offset_ : dx;
      phase.forward.run({dy, workspace, result}, base + main_offset_);
      if (result != dx) spread(phase, static_cast<const BFloat16*>(result), pixels);
    }
  }

 private:
  void turn(const PhaseConvolution& phase, const float* weight, BFloat16* turned,
            void* workspace) const {
    const auto at = [](const Shape& strides, std::int64_t h, std::int64_t w) {
      return h * strides[2] + w * strides[3];
    };
    for (std::int64_t h = 0; h < phase.h.elements; ++h)
      for (std::int64_t w = 0; w < phase.w.elements; ++w)
        phase.turn.run({weight + at(weight_strides_, phase.h.last - h * window_.stride_h,
                                    phase.w.last - w * window_.stride_w),
                        turned + at(phase.turned_strides, h, w)},
                       workspace);
  }

  // Maps: [sample and block of channels][row][column][channel of the block].
  void spread(const PhaseConvolution& phase, const BFloat16* result, BFloat16* dx) const {
    const std::int64_t block = channel_block(source_), rows = phase.h.pixels,
                       columns = phase.w.pixels,
                       lines = source_.shape[0] * (source_.shape[1] / block) * rows;
    const auto copy = [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line) {
        const std::int64_t row =
            line / rows * source_.shape[2] + phase.h.first + line % rows * window_.stride_h;
        const BFloat16* const from = result + line * columns * block;
        BFloat16* const to = dx + (row * source_.shape[3] + phase.w.first) * block;
        for (std::int64_t w = 0; w < columns; ++w)
          std::copy_n(from + w * block, block, to + w * window_.stride_w * block);
      }
    };
    cpu::parallel_shares(context_->threads, lines, 1, copy);
  }

  const Context* context_;
  Window2d window_;
  TensorLayout source_;
  Shape weight_strides_;
  std::vector<PhaseConvolution> phases_;
  bool is_whole_;
  std::size_t result_offset_ = 0, main_offset_ = 0, workspace_bytes_ = 0;
};

// Null where one of the phases has no plan.
std::unique_ptr<ConvGradient> plan_phases(const Context& context, const Conv2dDesc& desc,
                                          const TensorLayout& source, const TensorLayout& target,
                                          const Desc& weight) {
  const Window2d& window = desc.window;
  const Shape &in = source.shape, &out = target.shape;
  std::vector<PhaseConvolution> phases;
  bool is_whole = true;
  for (std::int64_t a = 0; a < std::min(window.stride_h, in[2]); ++a)
    for (std::int64_t b = 0; b < std::min(window.stride_w, in[3]); ++b) {
      const Phase h = phase_of(a, in[2], out[2], window.kernel_h, window.stride_h, desc.dilation.h,
                               window.pad_h);
      const Phase w = phase_of(b, in[3], out[3], window.kernel_w, window.stride_w, desc.dilation.w,
                               window.pad_w);
      const bool is_reached = h.elements > 0 && w.elements > 0;
      is_whole = is_whole && is_reached;
      if (!is_reached) continue;
      TensorLayout result = source;
      result.shape = {in[0], in[1], h.pixels, w.pixels};
      result.bytes = static_cast<std::size_t>(element_count(result.shape)) * sizeof(BFloat16);
      auto phase = plan_phase(context, h, w, source, target, result, weight);
      if (!phase) return nullptr;
      phases.push_back(std::move(*phase));
    }
  return std::make_unique<TurnedWeights>(context, window, source, weight, std::move(phases),
                                         is_whole);
}

}  // namespace

std::unique_ptr<ConvGradient> plan_turned_weights(const Context& context, const Conv2dDesc& desc,
                                                  const TensorLayout& source,
                                                  const TensorLayout& target, const Desc& weight) {
  const bool is_bf16 = source.type == DataType::bf16 && target.type == DataType::bf16;
  const bool is_dilated = desc.dilation.h > 1 || desc.dilation.w > 1;
  if (desc.groups > 1 || !is_bf16 || !has_taps(weight)) return nullptr;
  if (source.shape[1] % 16 != 0 || target.shape[1] % 16 != 0) return nullptr;
  if (is_strided(desc.window) && (is_dilated || channel_block(source) == 0)) return nullptr;
  try {
    return plan_phases(context, desc, source, target, weight);
  } catch (const dnnl::error&) {  // the direct way serves
    return nullptr;
  }
}

}  // namespace ddpbench::ops::onednn
