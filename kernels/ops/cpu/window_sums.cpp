// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d, adaptive_avg_pool2d and upsample_bilinear over the layout that the input has, in
// fp32: weighted sums over windows, whose weights are products of a row's and a column's. oneDNN
// has no adaptive pool whose windows differ in size, and its backward of a resampling is a scalar
// loop.
//
// The kernels work on planes of pixels whose channels lie together, [h][w][inner], as those of
// max_pool.h. The sums of a window grow in the output's own memory, pixel after pixel. With several
// channels to a pixel that is a vector loop. With one it is not, and a window's sum is short.
// Backward adds each output's gradient to its window: one thread has a plane, so the order is
// fixed.
#include <algorithm>
#include <vector>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// Along one axis: the elements of the map that an output sums, [begin, end), and their weights.
struct WeightedRange {
  std::int64_t begin, end;
  float first, others;

  float weight(std::int64_t at) const { return at == begin ? first : others; }
};

struct WindowGeometry {
  std::int64_t height = 0, width = 0;
  std::int64_t inner = 0;                    // channels of a pixel
  std::vector<WeightedRange> rows, columns;  // one for each output row and column

  std::int64_t input_elements() const { return height * width * inner; }
  std::int64_t output_elements() const {
    return static_cast<std::int64_t>(rows.size() * columns.size()) * inner;
  }
};

// Calls body(offset of a pixel in the input, offset in the output, weight) for each pixel of each
// window.
template <typename Body>
DDPBENCH_SIMD_BODY inline void for_each_pixel(const WindowGeometry& g, const Body& body) {
  std::int64_t output = 0;
  for (const WeightedRange& rows : g.rows)
    for (const WeightedRange& columns : g.columns) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        for (std::int64_t column = columns.begin; column < columns.end; ++column)
          body((row * g.width + column) * g.inner, output,
               rows.weight(row) * columns.weight(column));
      output += g.inner;
    }
}

template <typename Axis>
std::vector<WeightedRange> ranges_of(const Axis& axis) {
  std::vector<WeightedRange> ranges;
  for (std::uint32_t i = 0; i < axis.outputs; ++i) {
    const std::uint32_t begin = axis.begin(i), end = axis.end(i);
    ranges.push_back({begin, end, axis.weight(i, begin), axis.weight(i, end - 1)});
  }
  return ranges;
}

// Adds the pixels of each window, by their weights, to its output, or backward each output's
// gradient to its window. Writes all of `to`.
template <bool kBackward>
void sum_windows(SimdLevel level, const WindowGeometry& g, const float* from, float* to) {
  std::fill_n(to, kBackward ? g.input_elements() : g.output_elements(), 0.0F);
  run_simd(level, [=, &g]() DDPBENCH_SIMD_BODY {
    for_each_pixel(g, [=, inner = g.inner](std::int64_t at_x, std::int64_t at_y, float weight)
                          DDPBENCH_SIMD_BODY {
                            const float* const pixel = from + (kBackward ? at_y : at_x);
                            float* const sums = to + (kBackward ? at_x : at_y);
#pragma GCC ivdep
                            for (std::int64_t c = 0; c < inner; ++c) sums[c] += pixel[c] * weight;
                          });
  });
}

class WindowSum : public Op {
 public:
  template <typename Desc>
  WindowSum(Team team, const Desc& desc) : Op(plain_plan(desc)), team_(team) {
    const Shape in = desc.input.shape, out = plan_.output.shape;
    std::int64_t block = channel_block(desc.input);
    if (block > 0) plan_.inputs = {with_type(desc.input, DataType::fp32)};
    if (block == 0) block = 1;  // not a layout of these kernels: read it plain
    const auto [rows, columns] = axes_of(desc);
    geometry_ = {in[2], in[3], block, ranges_of(rows), ranges_of(columns)};
    planes_ = in[0] * ceil_div(in[1], block);
    // Whole blocks of one pixel lie as plain channels do.
    const bool is_plain = out[2] * out[3] == 1 && in[1] % block == 0;
    if (!is_plain) plan_.output = image_layout(out, block);
    plan_.description += fmt::format(" ({})", to_string(team_.simd));
  }

  void forward(Stream&, const ForwardArgs& args) override {
    run<false>(args.inputs[0], args.output);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs.empty() && args.grad_inputs[0])
      run<true>(args.grad_output, args.grad_inputs[0]);
  }

 private:
  // A plane is one sample's group of `inner` channels, the kernels' unit of work.
  template <bool kBackward>
  void run(const void* from, void* to) const {
    const std::int64_t inputs = geometry_.input_elements(), outputs = geometry_.output_elements();
    const std::int64_t read = kBackward ? outputs : inputs, written = kBackward ? inputs : outputs;
    const bool is_small = planes_ * std::max(inputs, outputs) < kMinParallelElements;
    parallel_shares(is_small ? 1 : team_.threads, planes_, 1,
                    [&](int, std::int64_t begin, std::int64_t end) {
                      for (std::int64_t plane = begin; plane < end; ++plane) {
                        sum_windows<kBackward>(team_.simd, geometry_,
                                               static_cast<const float*>(from) + plane * read,
                                               static_cast<float*>(to) + plane * written);
                      }
                    });
  }

  Team team_;
  WindowGeometry geometry_;
  std::int64_t planes_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const AvgPool2dDesc& desc) {
  return std::make_unique<WindowSum>(team, desc);
}
std::unique_ptr<Op> make_op(Team team, const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<WindowSum>(team, desc);
}
std::unique_ptr<Op> make_op(Team team, const UpsampleBilinearDesc& desc) {
  return std::make_unique<WindowSum>(team, desc);
}

}  // namespace ddpbench::ops::cpu
