// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's weights as products of gathered rows. Each output pixel is a row.
// For each element (kh, kw) of the kernel, a tap, the input pixels that it reads are gathered:
//
//   dw[:, :, kh, kw] [out, in] = dy^T [out, rows] x_tap [rows, in]
//
// These are the FLOPs of the direct way. The bytes are more: the input is written and read once for
// each tap. Rows are taken in parts that stay in a cache, which also keeps the workspace small:
//
//   [sums, [kh][kw][out][in] in fp32][a part of dy][a part of x_tap][primitives]
//
// Maps that already lie as the products want them are used where they are.
#include <algorithm>
#include <array>

#include "kernels/ops/onednn/api.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::onednn {
namespace {

using Desc = dnnl::memory::desc;

// The rows of a part, for each thread of the team: at most, and where the number of all rows
// divides badly.
constexpr std::int64_t kPartRows = 4096, kLeastPartRows = 1024;

// A bf16 map in memory: [sample][block of channels][row][column][channel of the block].
struct Map {
  std::int64_t channels, height, width;
  std::int64_t block;  // channels that lie together in each pixel; 0: laid out otherwise
};
Map map_of(const TensorLayout& l) {
  return {l.shape[1], l.shape[2], l.shape[3], l.type == DataType::bf16 ? channel_block(l) : 0};
}

// Output pixel (h, w) reads input pixel (h * stride_h + shift_h, w * stride_w + shift_w).
struct Tap {
  std::int64_t stride_h = 1, stride_w = 1, shift_h = 0, shift_w = 0;
};

// Gathers what output pixels [begin, end) read: to [end - begin, channels], zeros for padding.
void gather(const Map& map, const Map& target, const Tap& tap, const BFloat16* from,
            std::int64_t begin, std::int64_t end, BFloat16* to) {
  const std::int64_t blocks = ceil_div(map.channels, map.block);
  const auto is_inside = [](std::int64_t i, std::int64_t extent) { return i >= 0 && i < extent; };
  std::int64_t count = 0;  // of neighbours in one line
  for (std::int64_t row = begin; row < end; row += count, to += count * map.channels) {
    const std::int64_t column = row % target.width, line = row / target.width;
    count = std::min(target.width - column, end - row);
    const std::int64_t h = line % target.height * tap.stride_h + tap.shift_h;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t first = (line / target.height * blocks + b) * map.height + h;
      const std::int64_t size = std::min(map.block, map.channels - b * map.block);
      BFloat16* pixel = to + b * map.block;
      for (std::int64_t i = 0; i < count; ++i, pixel += map.channels) {
        const std::int64_t w = (column + i) * tap.stride_w + tap.shift_w;
        const BFloat16* const read = from + (first * map.width + w) * map.block;
        if (!is_inside(h, map.height) || !is_inside(w, map.width))
          std::fill_n(pixel, size, BFloat16{});
        else if (size == 16)  // known, so that nothing is called
          std::copy_n(read, 16, pixel);
        else
          std::copy_n(read, size, pixel);
      }
    }
  }
}

// The largest part of which all rows are a multiple; 0: it would be too small.
std::int64_t rows_of_part(std::int64_t rows, int threads) {
  std::int64_t part = std::min(rows, kPartRows * threads);
  while (rows % part != 0) --part;
  return part == rows || part >= kLeastPartRows * threads ? part : 0;
}

class ProductsOfRows : public ConvGradient {
 public:
  ProductsOfRows(const Context& context, const Conv2dDesc& desc, const Map& source,
                 const Map& target, const Desc& weight, std::int64_t rows, std::int64_t part)
      : context_(&context),
        window_(desc.window),
        dilation_(desc.dilation),
        source_(source),
        target_(target),
        rows_(rows),
        part_(part) {
    const std::int64_t out = target.channels, in = source.channels;
    for (const bool add : {false, true})
      products_[add] = make_weight_gradient(context, DataType::bf16, part_, in, out, add);
    const Shape weight_strides = {in, 1, window_.kernel_w * out * in, out * in};
    const Desc sums(dims_of(weight), dnnl::memory::data_type::f32, weight_strides);
    reorder_ = make_reorder_launch(context, sums, weight);
    lay_out_workspace(sums);
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const void* x, const void* dy, void* dw, void* workspace) const override {
    auto* const base = static_cast<std::byte*>(workspace);
    auto* const sums = static_cast<float*>(workspace);
    const std::int64_t area = target_.channels * source_.channels;
    for (std::int64_t begin = 0; begin < rows_; begin += part_) {
      const void* const dy_rows = rows_of(target_, {}, begin, dy, base + dy_offset_);
      for (std::int64_t tap = 0; tap < window_.kernel_h * window_.kernel_w; ++tap) {
        const void* const x_rows = rows_of(source_, tap_of(tap), begin, x, base + x_offset_);
        products_[begin > 0]->run({dy_rows, x_rows, sums + tap * area}, base + main_offset_);
      }
    }
    reorder_->run({sums, dw}, base + main_offset_);
  }

 private:
  void lay_out_workspace(const Desc& sums) {
    const auto part_bytes = [&](const Map& map) {
      return align_up(static_cast<std::size_t>(part_ * map.channels) * sizeof(BFloat16));
    };
    const bool one_tap = window_.kernel_h * window_.kernel_w == 1;
    dy_offset_ = align_up(sums.get_size());
    x_offset_ = dy_offset_ + (is_in_place(target_, {}) ? 0 : part_bytes(target_));
    main_offset_ =
        x_offset_ + (one_tap && is_in_place(source_, tap_of(0)) ? 0 : part_bytes(source_));
    std::size_t primitives = reorder_->workspace_bytes();
    for (const auto& product : products_)
      primitives = std::max(primitives, product->workspace_bytes());
    workspace_bytes_ = main_offset_ + primitives;
  }

  Tap tap_of(std::int64_t index) const {
    const std::int64_t h = index / window_.kernel_w, w = index % window_.kernel_w;
    return {window_.stride_h, window_.stride_w, h * dilation_.h - window_.pad_h,
            w * dilation_.w - window_.pad_w};
  }

  // Whether the tap's rows are the map's pixels, in their order.
  bool is_in_place(const Map& map, const Tap& tap) const {
    return map.block == map.channels && map.height == target_.height &&
           map.width == target_.width && tap.stride_h == 1 && tap.stride_w == 1 &&
           tap.shift_h == 0 && tap.shift_w == 0;
  }

  // A part's rows [part, channels] from row `begin` on, in the map or gathered in `room`.
  const void* rows_of(const Map& map, const Tap& tap, std::int64_t begin, const void* data,
                      void* room) const {
    const auto* const from = static_cast<const BFloat16*>(data);
    auto* const to = static_cast<BFloat16*>(room);
    if (is_in_place(map, tap)) return from + begin * map.channels;
    const int threads = part_ * map.channels < cpu::kMinParallelElements ? 1 : context_->threads;
    cpu::parallel_shares(threads, part_, 1, [&](int, std::int64_t first, std::int64_t last) {
      gather(map, target_, tap, from, begin + first, begin + last, to + first * map.channels);
    });
    return room;
  }

  const Context* context_;
  Window2d window_;
  Dilation2d dilation_;
  Map source_, target_;
  std::int64_t rows_, part_;                       // of all samples; of a part
  std::array<std::optional<Launch>, 2> products_;  // the first part's; the others', which add
  std::optional<Launch> reorder_;                  // of the sums
  std::size_t dy_offset_ = 0, x_offset_ = 0, main_offset_ = 0, workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ConvGradient> plan_gathered_rows(const Context& context, const Conv2dDesc& desc,
                                                 const TensorLayout& source,
                                                 const TensorLayout& target, const Desc& weight) {
  const Map from = map_of(source), to = map_of(target);
  if (desc.groups > 1 || desc.bias || from.block == 0 || to.block == 0) return nullptr;
  const std::int64_t rows = desc.input.shape[0] * to.height * to.width;
  const std::int64_t part = rows_of_part(rows, context.threads);
  if (part == 0) return nullptr;
  return std::make_unique<ProductsOfRows>(context, desc, from, to, weight, rows, part);
}

}  // namespace ddpbench::ops::onednn
