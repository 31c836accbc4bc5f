// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference max_pool2d, avg_pool2d, adaptive_avg_pool2d and upsample_bilinear: one comparison or
// addition an element of a window. Averages are sums in double over a divisor. The first largest
// element of a window wins, and NaN counts as largest (PyTorch's rule); `saved` keeps each winner's
// index.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

// The elements of the map that an output is made of, and what an average of them divides by.
struct PoolWindow {
  std::int64_t top, bottom, left, right;  // rows [top, bottom), columns [left, right)
  std::int64_t divisor = (bottom - top) * (right - left);
};

template <typename Desc>
PoolWindow window_of(const Desc& desc, std::int64_t i, std::int64_t j) {
  const Window2d& w = desc.window;
  const std::int64_t top = i * w.stride_h - w.pad_h, left = j * w.stride_w - w.pad_w;
  PoolWindow window{std::max<std::int64_t>(top, 0), std::min(top + w.kernel_h, desc.input.shape[2]),
                    std::max<std::int64_t>(left, 0),
                    std::min(left + w.kernel_w, desc.input.shape[3])};
  if constexpr (requires { desc.count_include_pad; }) {
    const std::int64_t padded_h = desc.input.shape[2] + w.pad_h + w.more_h;
    const std::int64_t padded_w = desc.input.shape[3] + w.pad_w + w.more_w;
    if (desc.count_include_pad) {
      window.divisor = (std::min(top + w.kernel_h, padded_h) - top) *
                       (std::min(left + w.kernel_w, padded_w) - left);
    }
  }
  return window;
}

PoolWindow window_of(const AdaptiveAvgPool2dDesc& desc, std::int64_t i, std::int64_t j) {
  const std::int64_t height = desc.input.shape[2], width = desc.input.shape[3];
  return {i * height / desc.out_h, ceil_div((i + 1) * height, desc.out_h),  //
          j * width / desc.out_w, ceil_div((j + 1) * width, desc.out_w)};
}

template <typename Desc>
class Pool : public Op {
 protected:
  explicit Pool(const Desc& desc) : Op(plain_plan(desc)), desc_(desc) {}

  // Calls body(index into y, window, plane) for each output.
  template <typename Body>
  void for_each_window(const Body& body) const {
    const Shape& out = plan_.output.shape;
    for (std::int64_t plane = 0, at = 0; plane < out[0] * out[1]; ++plane)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j) body(at++, window_of(desc_, i, j), plane);
  }

  // Calls body(index into x) for each element of a window.
  template <typename Body>
  void for_each_element(const PoolWindow& window, std::int64_t plane, const Body& body) const {
    const Shape& in = desc_.input.shape;
    for (std::int64_t row = window.top; row < window.bottom; ++row)
      for (std::int64_t column = window.left; column < window.right; ++column)
        body((plane * in[2] + row) * in[3] + column);
  }

  Desc desc_;
};

template <typename Desc>
class AveragePool : public Pool<Desc> {
 public:
  explicit AveragePool(const Desc& desc) : Pool<Desc>(desc) {}

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    auto* y = floats(args.output);
    this->for_each_window([&](std::int64_t at_y, const PoolWindow& window, std::int64_t plane) {
      double sum = 0;
      this->for_each_element(window, plane, [&](std::int64_t at_x) { sum += x[at_x]; });
      y[at_y] = static_cast<float>(sum / static_cast<double>(window.divisor));
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const auto* dy = floats(args.grad_output);
    std::vector<double> dx(static_cast<std::size_t>(element_count(this->desc_.input.shape)));
    this->for_each_window([&](std::int64_t at_y, const PoolWindow& window, std::int64_t plane) {
      this->for_each_element(window, plane, [&](std::int64_t at_x) {
        dx[static_cast<std::size_t>(at_x)] += dy[at_y] / static_cast<double>(window.divisor);
      });
    });
    std::copy(dx.begin(), dx.end(), floats(args.grad_inputs[0]));
  }
};

class UpsampleBilinear : public Op {
 public:
  explicit UpsampleBilinear(const UpsampleBilinearDesc& desc)
      : Op(plain_plan(desc)),
        rows_(taps(desc.input.shape[2], desc.out_h)),
        columns_(taps(desc.input.shape[3], desc.out_w)) {}

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
  // What an output reads along one axis, and the weight of each.
  using Taps = std::array<std::pair<std::int64_t, double>, 2>;

  static std::vector<Taps> taps(std::int64_t extent, std::int64_t outputs) {
    std::vector<Taps> all;
    const double scale = static_cast<double>(extent) / static_cast<double>(outputs);
    for (std::int64_t i = 0; i < outputs; ++i) {
      const double place = std::max((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0);
      const auto first = static_cast<std::int64_t>(place);
      const double share = place - std::floor(place);
      all.push_back({{{first, 1 - share}, {std::min(first + 1, extent - 1), share}}});
    }
    return all;
  }

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

  std::vector<Taps> rows_, columns_;
};

constexpr std::int64_t kNoGradient = -1;  // the fused ReLU cut the gradient off

class MaxPool2d : public Pool<MaxPool2dDesc> {
 public:
  explicit MaxPool2d(const MaxPool2dDesc& desc) : Pool(desc) {
    plan_.saved_bytes = plan_.output.bytes / sizeof(float) * sizeof(std::int64_t);
  }

  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    auto* y = floats(args.output);
    auto* winners = static_cast<std::int64_t*>(args.saved);
    for_each_window([&](std::int64_t at_y, const PoolWindow& window, std::int64_t plane) {
      std::int64_t winner = kNoGradient;
      for_each_element(window, plane, [&](std::int64_t at_x) {
        const bool first = winner == kNoGradient;
        if (first || x[at_x] > x[winner] || std::isnan(x[at_x])) winner = at_x;
      });
      const float value = x[winner];
      y[at_y] = desc_.fuse_relu ? relu(value) : value;
      winners[at_y] = desc_.fuse_relu && value <= 0 ? kNoGradient : winner;
    });
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
};

}  // namespace

std::unique_ptr<Op> make_op(const AvgPool2dDesc& desc) {
  return std::make_unique<AveragePool<AvgPool2dDesc>>(desc);
}
std::unique_ptr<Op> make_op(const AdaptiveAvgPool2dDesc& desc) {
  return std::make_unique<AveragePool<AdaptiveAvgPool2dDesc>>(desc);
}
std::unique_ptr<Op> make_op(const UpsampleBilinearDesc& desc) {
  return std::make_unique<UpsampleBilinear>(desc);
}
std::unique_ptr<Op> make_op(const MaxPool2dDesc& desc) { return std::make_unique<MaxPool2d>(desc); }

}  // namespace ddpbench::ops::reference
