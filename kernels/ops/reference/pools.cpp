// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference max_pool2d, avg_pool2d, adaptive_avg_pool2d and upsample_bilinear: one comparison or
// addition an element of a window. Averages and interpolations are weighted sums in double. The
// first largest element of a window wins, and NaN counts as largest (PyTorch's rule); `saved` keeps
// each winner's index.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

// What an output reads along one axis, and the weight of each element.
using Taps = std::vector<std::pair<std::int64_t, double>>;

// The share of [first, last) in a mean over `counted` elements.
Taps mean_taps(std::int64_t first, std::int64_t last, std::int64_t counted) {
  Taps taps;
  for (std::int64_t at = first; at < last; ++at) {
    taps.emplace_back(at, 1 / static_cast<double>(counted));
  }
  return taps;
}

// The taps of output i of `outputs`, along the axis of `extent` elements that is dimension `axis`
// of the map.
Taps taps_of(const AvgPool2dDesc& desc, std::size_t axis, std::int64_t extent, std::int64_t,
             std::int64_t i) {
  const Window2d& w = desc.window;
  const bool rows = axis == 2;
  const std::int64_t pad = rows ? w.pad_h : w.pad_w, more = rows ? w.more_h : w.more_w;
  const std::int64_t begin = i * (rows ? w.stride_h : w.stride_w) - pad;
  const std::int64_t end = begin + (rows ? w.kernel_h : w.kernel_w);
  const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, extent);
  const std::int64_t padded = std::min(end, extent + pad + more) - begin;
  return mean_taps(first, last, desc.count_include_pad ? padded : last - first);
}

Taps taps_of(const AdaptiveAvgPool2dDesc&, std::size_t, std::int64_t extent, std::int64_t outputs,
             std::int64_t i) {
  const std::int64_t first = i * extent / outputs, last = ceil_div((i + 1) * extent, outputs);
  return mean_taps(first, last, last - first);
}

Taps taps_of(const UpsampleBilinearDesc&, std::size_t, std::int64_t extent, std::int64_t outputs,
             std::int64_t i) {
  const double scale = static_cast<double>(extent) / static_cast<double>(outputs);
  const double place = std::max((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0);
  const auto first = static_cast<std::int64_t>(place);
  const double share = place - std::floor(place);
  return {{first, 1 - share}, {std::min(first + 1, extent - 1), share}};
}

// Each output is a sum of elements, whose weights are those of their row and column.
class WindowSum : public Op {
 public:
  template <typename Desc>
  explicit WindowSum(const Desc& desc) : Op(plain_plan(desc)) {
    for (std::size_t axis : {2U, 3U}) {
      const std::int64_t extent = desc.input.shape[axis], outputs = plan_.output.shape[axis];
      for (std::int64_t i = 0; i < outputs; ++i)
        (axis == 2 ? rows_ : columns_).push_back(taps_of(desc, axis, extent, outputs, i));
    }
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    std::vector<double> y(static_cast<std::size_t>(element_count(plan_.output.shape)));
    for_each_tap(
        [&](std::size_t at_y, std::size_t at_x, double weight) { y[at_y] += weight * x[at_x]; });
    std::copy(y.begin(), y.end(), floats(args.output));
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = floats(args.grad_output);
    std::vector<double> dx(static_cast<std::size_t>(element_count(plan_.inputs[0].shape)));
    for_each_tap(
        [&](std::size_t at_y, std::size_t at_x, double weight) { dx[at_x] += weight * dy[at_y]; });
    std::copy(dx.begin(), dx.end(), floats(args.grad_inputs[0]));
  }

 private:
  // Calls body(index into y, index into x, weight).
  template <typename Body>
  void for_each_tap(const Body& body) const {
    const Shape& in = plan_.inputs[0].shape;
    for (std::int64_t plane = 0, at_y = 0; plane < in[0] * in[1]; ++plane)
      for (const Taps& rows : rows_)
        for (const Taps& columns : columns_) {
          for (const auto& [row, row_weight] : rows)
            for (const auto& [column, weight] : columns)
              body(static_cast<std::size_t>(at_y),
                   static_cast<std::size_t>((plane * in[2] + row) * in[3] + column),
                   row_weight * weight);
          ++at_y;
        }
  }

  std::vector<Taps> rows_, columns_;  // [output along the axis]
};

constexpr std::int64_t kNoGradient = -1;  // the fused ReLU cut the gradient off

class MaxPool2d : public Op {
 public:
  explicit MaxPool2d(const MaxPool2dDesc& desc) : Op(plain_plan(desc)), desc_(desc) {
    plan_.saved_bytes = plan_.output.bytes / sizeof(float) * sizeof(std::int64_t);
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    auto* y = floats(args.output);
    auto* winners = static_cast<std::int64_t*>(args.saved);
    const Shape& out = plan_.output.shape;
    for (std::int64_t plane = 0, at_y = 0; plane < out[0] * out[1]; ++plane)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j, ++at_y) {
          const std::int64_t winner = largest_in_window(x, plane, i, j);
          const float value = x[winner];
          y[at_y] = desc_.fuse_relu ? relu(value) : value;
          winners[at_y] = desc_.fuse_relu && value <= 0 ? kNoGradient : winner;
        }
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = floats(args.grad_output);
    const auto* winners = static_cast<const std::int64_t*>(args.saved);
    auto* dx = floats(args.grad_inputs[0]);
    std::fill_n(dx, element_count(desc_.input.shape), 0.0F);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k)
      if (winners[k] != kNoGradient) dx[winners[k]] += dy[k];
  }

 private:
  // The index of the winner in window (i, j) of a plane.
  std::int64_t largest_in_window(const float* x, std::int64_t plane, std::int64_t i,
                                 std::int64_t j) const {
    const Window2d& w = desc_.window;
    const Shape& in = desc_.input.shape;
    const std::int64_t top = i * w.stride_h - w.pad_h, left = j * w.stride_w - w.pad_w;
    std::int64_t winner = kNoGradient;
    for (std::int64_t row = std::max<std::int64_t>(top, 0); row < std::min(top + w.kernel_h, in[2]);
         ++row)
      for (std::int64_t column = std::max<std::int64_t>(left, 0);
           column < std::min(left + w.kernel_w, in[3]); ++column) {
        const std::int64_t at_x = (plane * in[2] + row) * in[3] + column;
        const bool first = winner == kNoGradient;
        if (first || x[at_x] > x[winner] || std::isnan(x[at_x])) winner = at_x;
      }
    return winner;
  }

  MaxPool2dDesc desc_;
};

}  // namespace

std::unique_ptr<Op> make_op(const AvgPool2dDesc& desc) { return std::make_unique<WindowSum>(desc); }
std::unique_ptr<Op> make_op(const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<WindowSum>(desc);
}
std::unique_ptr<Op> make_op(const UpsampleBilinearDesc& desc) {
  return std::make_unique<WindowSum>(desc);
}
std::unique_ptr<Op> make_op(const MaxPool2dDesc& desc) { return std::make_unique<MaxPool2d>(desc); }

}  // namespace ddpbench::ops::reference
