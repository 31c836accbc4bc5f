// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d and adaptive_avg_pool2d over the layout that the input has, in fp32. oneDNN has no
// adaptive pool whose windows differ in size.
//
// The kernels work on planes of pixels whose channels lie together, [h][w][inner], as those of
// max_pool.h. The sums of a window grow in the output's own memory, pixel after pixel. With several
// channels to a pixel that is a vector loop. With one it is not, and a window's sum is short.
#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// Along one axis: the elements of the map that an output averages, [begin, end), and how many
// count.
struct AveragedRange {
  std::int64_t begin, end;
  std::int64_t counted = end - begin;
};

struct AverageGeometry {
  std::int64_t height = 0, width = 0;
  std::int64_t inner = 0;                    // channels of a pixel
  std::vector<AveragedRange> rows, columns;  // one for each output row and column

  std::int64_t out_h() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t out_w() const { return static_cast<std::int64_t>(columns.size()); }
  std::int64_t input_elements() const { return height * width * inner; }
  std::int64_t output_elements() const { return out_h() * out_w() * inner; }
};

// Calls body(row range, column range, output pixel, factor) for each output.
template <typename Body>
void for_each_average(const AverageGeometry& g, const Body& body) {
  std::int64_t pixel = 0;
  for (const AveragedRange& rows : g.rows)
    for (const AveragedRange& columns : g.columns) {
      const auto divisor = static_cast<double>(rows.counted * columns.counted);
      body(rows, columns, pixel++, static_cast<float>(1 / divisor));
    }
}

// Windows of `kernel` elements, cut at the map's edges. Of those that `counted_pad` adds to its
// end, if any, none is in a sum.
std::vector<AveragedRange> window_ranges(std::int64_t extent, std::int64_t outputs,
                                         std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                                         std::optional<std::int64_t> counted_pad) {
  std::vector<AveragedRange> ranges;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t first = i * stride - pad;
    ranges.push_back({std::max<std::int64_t>(first, 0), std::min(first + kernel, extent)});
    if (counted_pad) ranges.back().counted = std::min(kernel, extent + *counted_pad - first);
  }
  return ranges;
}

// As adaptive_avg_pool2d defines them.
std::vector<AveragedRange> adaptive_ranges(std::int64_t extent, std::int64_t outputs) {
  std::vector<AveragedRange> ranges;
  for (std::int64_t i = 0; i < outputs; ++i)
    ranges.push_back({i * extent / outputs, ((i + 1) * extent + outputs - 1) / outputs});
  return ranges;
}

void average_forward(SimdLevel level, const AverageGeometry& g, const float* x, float* y) {
  const std::int64_t inner = g.inner;
  for_each_average(g, [&](const AveragedRange& rows, const AveragedRange& columns,
                          std::int64_t pixel, float factor) {
    float* const sums = y + pixel * inner;
    std::fill_n(sums, inner, 0.0F);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* const from = x + (row * g.width + columns.begin) * inner;
      const std::int64_t pixels = columns.end - columns.begin;
      run_simd(level, [=]() DDPBENCH_SIMD_BODY {
        for (std::int64_t p = 0; p < pixels; ++p)
#pragma GCC ivdep
          for (std::int64_t c = 0; c < inner; ++c) sums[c] += from[p * inner + c];
      });
    }
    for (std::int64_t c = 0; c < inner; ++c) sums[c] *= factor;
  });
}

// Writes all of dx.
void average_backward(SimdLevel level, const AverageGeometry& g, const float* dy, float* dx) {
  const std::int64_t inner = g.inner;
  std::fill_n(dx, g.input_elements(), 0.0F);
  for_each_average(g, [&](const AveragedRange& rows, const AveragedRange& columns,
                          std::int64_t pixel, float factor) {
    const float* const gradient = dy + pixel * inner;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* const to = dx + (row * g.width + columns.begin) * inner;
      const std::int64_t pixels = columns.end - columns.begin;
      run_simd(level, [=]() DDPBENCH_SIMD_BODY {
        for (std::int64_t p = 0; p < pixels; ++p)
#pragma GCC ivdep
          for (std::int64_t c = 0; c < inner; ++c) to[p * inner + c] += gradient[c] * factor;
      });
    }
  });
}

void set_windows(const AvgPool2dDesc& desc, const Shape& out, AverageGeometry& geometry) {
  const Window2d& w = desc.window;
  const auto counted = [&](std::int64_t pad) {
    return desc.count_include_pad ? std::optional(pad) : std::nullopt;
  };
  geometry.rows = window_ranges(geometry.height, out[2], w.kernel_h, w.stride_h, w.pad_h,
                                counted(w.pad_h + w.more_h));
  geometry.columns = window_ranges(geometry.width, out[3], w.kernel_w, w.stride_w, w.pad_w,
                                   counted(w.pad_w + w.more_w));
}

void set_windows(const AdaptiveAvgPool2dDesc&, const Shape& out, AverageGeometry& geometry) {
  geometry.rows = adaptive_ranges(geometry.height, out[2]);
  geometry.columns = adaptive_ranges(geometry.width, out[3]);
}

class AveragePool : public Op {
 public:
  template <typename Desc>
  AveragePool(Team team, const Desc& desc) : Op(plain_plan(desc)), team_(team) {
    const Shape in = desc.input.shape, out = plan_.output.shape;
    std::int64_t block = channel_block(desc.input);
    if (block > 0) plan_.inputs = {with_type(desc.input, DataType::fp32)};
    if (block == 0) block = 1;  // not a layout of these kernels: read it plain
    geometry_ = {.height = in[2], .width = in[3], .inner = block};
    set_windows(desc, out, geometry_);
    planes_ = in[0] * ceil_div(in[1], block);
    // Whole blocks of one pixel lie as plain channels do.
    const bool is_plain = out[2] * out[3] == 1 && in[1] % block == 0;
    if (!is_plain) plan_.output = image_layout(out, block);
    plan_.description += fmt::format(" ({})", to_string(team_.simd));
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.output);
    for_each_plane([&](std::int64_t plane) {
      average_forward(team_.simd, geometry_, x + plane * geometry_.input_elements(),
                      y + plane * geometry_.output_elements());
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = static_cast<const float*>(args.grad_output);
    auto* dx = static_cast<float*>(args.grad_inputs[0]);
    for_each_plane([&](std::int64_t plane) {
      average_backward(team_.simd, geometry_, dy + plane * geometry_.output_elements(),
                       dx + plane * geometry_.input_elements());
    });
  }

 private:
  // A plane is one sample's group of `inner` channels, the kernels' unit of work.
  template <typename Body>
  void for_each_plane(const Body& body) const {
    const int threads =
        planes_ * geometry_.input_elements() < kMinParallelElements ? 1 : team_.threads;
    parallel_shares(threads, planes_, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
    });
  }

  Team team_;
  AverageGeometry geometry_;
  std::int64_t planes_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const AvgPool2dDesc& desc) {
  return std::make_unique<AveragePool>(team, desc);
}
std::unique_ptr<Op> make_op(Team team, const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<AveragePool>(team, desc);
}

}  // namespace ddpbench::ops::cpu
