// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PowerSGD (Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
// Distributed Optimization", NeurIPS 2019). To a gradient M, its first dimension by the rest, a
// rank adds what it did not send before. Then
//
//   P = M Q, averaged over all ranks, its columns made orthonormal;
//   Q = M^T P, averaged likewise, and kept: the next step begins with it (warm start);
//   P Q^T takes the place of the gradient, and M - P Q^T is what was not sent.
//
// A gradient of one dimension, or than which P and Q are no smaller, is averaged as it is, beside
// the P of its bucket. Ranks on equal processors compute the same bits from the averages.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/math.h"
#include "base/random.h"
#include "parallel/comm_hook.h"

namespace ddpbench {
namespace {

class PowerSgd final : public CommHook {
 public:
  PowerSgd(std::int64_t width, std::uint64_t seed, const StrategyContext& context)
      : CommHook(context), width_(width), seed_(seed) {}

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters,
                                     std::span<const Bucket> buckets) override {
    if (parts_.empty()) lay_out(parameters, buckets);
    constexpr auto kCategory = MemoryCategory::communication;
    return {{&left_, kCategory, left_end_, Sharing::mappable},
            {&right_, kCategory, right_end_, Sharing::mappable},
            {&rest_, kCategory, rest_end_},
            {&plain_, kCategory, plain_bytes_},
            {&workspace_, kCategory, workspace_bytes_}};
  }

  void open() override {
    registered_.add(world(), left_);
    if (right_) registered_.add(world(), right_);
  }

  comm::Work start(std::size_t b, const BufferView& gradients,
                   const comm::CallOptions& options) override {
    Stream& stream = *options.after;
    for (const Part& part : parts_[b]) {
      const BufferView gradient = gradients.slice(part.gradient, part.bytes);
      std::byte *const left = left_.data() + part.left, *const rest = rest_.data() + part.rest;
      if (!part.product) {
        device().copy(stream, {left, part.bytes}, gradient);
        continue;
      }
      part.reorder->forward(stream, {In{gradient.data}, plain_.data(), {}, {}, workspace_.data()});
      add(backend(), stream, {rest, part.plain_bytes}, 1, plain_.data());
      const In right = {right_.data() + part.right};
      part.product->forward(stream, {In{rest}, left, right, {}, workspace_.data()});
    }
    return average(left_, left_ends_, b, options);
  }

  comm::Work follow(std::size_t b, const comm::CallOptions& options) override {
    for (const Part& part : parts_[b]) {
      if (!part.product) continue;
      std::byte* const left = left_.data() + part.left;
      backend().orthonormalize(*options.after, {reinterpret_cast<float*>(left), part.rows,
                                                static_cast<std::size_t>(width_),
                                                reinterpret_cast<double*>(plain_.data())});
      part.product->backward(*options.after, {.inputs = In{rest_.data() + part.rest},
                                              .grad_output = left,
                                              .grad_parameters = Out{right_.data() + part.right},
                                              .workspace = workspace_.data()});
    }
    return average(right_, right_ends_, b, options);
  }

  void decode(std::size_t b, Stream& stream, const BufferView& gradients) override {
    for (const Part& part : parts_[b]) {
      const BufferView gradient = gradients.slice(part.gradient, part.bytes);
      std::byte* const left = left_.data() + part.left;
      if (!part.product) {
        device().copy(stream, gradient, {left, part.bytes});
        continue;
      }
      part.product->backward(stream, {.grad_output = left,
                                      .grad_inputs = Out{plain_.data()},
                                      .parameters = In{right_.data() + part.right},
                                      .grad_parameters = Out{nullptr},
                                      .workspace = workspace_.data()});
      add(backend(), stream, {rest_.data() + part.rest, part.plain_bytes}, -1, plain_.data());
      part.reorder->backward(stream, {.grad_output = plain_.data(),
                                      .grad_inputs = Out{gradient.data},
                                      .workspace = workspace_.data()});
    }
  }

  std::size_t sent_bytes(std::size_t b) const override { return left_ends_[b + 1] - left_ends_[b]; }
  std::size_t followed_bytes(std::size_t b) const override {
    return right_ends_[b + 1] - right_ends_[b];
  }

  // Approximations of another rank are of no use.
  void add_parts(std::vector<StatePart>& parts) const override {
    constexpr auto kNumbers = StatePart::Kind::numbers;
    add_own(parts, {.kind = kNumbers, .name = fmt::format("powersgd_error_{}", width_)}, rest_);
    parts.push_back({.kind = kNumbers,
                     .name = fmt::format("powersgd_factor_{}", width_),
                     .bytes = right_.bytes(),
                     .memory = right_.view()});
  }

  void reset(Stream& stream) override {
    if (!right_) return;
    fill_with_zeros(device(), stream, rest_);
    std::vector<float> start(right_.bytes() / sizeof(float));  // the same on all ranks
    SplitMix64 random(seed_, 0);
    for (float& value : start) value = static_cast<float>(random.uniform(-1, 1));
    device().copy(stream, right_.view(),
                  {reinterpret_cast<std::byte*>(start.data()), right_.bytes()});
    stream.synchronize();
  }

 private:
  using In = std::array<const void*, 1>;
  using Out = std::array<void*, 1>;
  // A gradient. Offsets in bytes: in its bucket; of P, or the whole, in left_; of Q^T; of M.
  struct Part {
    std::size_t gradient, left, right, rest;
    std::size_t bytes, plain_bytes, rows;
    std::unique_ptr<ops::Op> reorder, product;  // to row-major; M Q. Null where it is sent whole
  };

  comm::Work average(const Buffer& memory, const std::vector<std::size_t>& ends, std::size_t b,
                     const comm::CallOptions& options) {
    const BufferView part = memory.view().slice(ends[b], ends[b + 1] - ends[b]);
    return world().all_reduce(flat_elements(part), comm::ReduceOp::average, options);
  }

  void lay_out(const nn::ParameterPlan& parameters, std::span<const Bucket> buckets) {
    std::size_t i = 0;
    for (const Bucket& bucket : buckets) {
      std::vector<Part>& parts = parts_.emplace_back();
      for (; i < bucket.end_parameter; ++i) {
        const nn::ParameterInfo& parameter = parameters.parameters[i];
        parts.push_back(lay_out(parameter, parameter.offset_bytes - bucket.offset_bytes));
      }
      left_ends_.push_back(left_end_);
      right_ends_.push_back(right_end_);
    }
  }

  Part lay_out(const nn::ParameterInfo& parameter, std::size_t gradient) {
    const auto plain = ops::TensorLayout::plain(parameter.shape);
    const std::int64_t rows = plain.shape[0], columns = ops::element_count(plain.shape) / rows;
    if (plain.shape.size() < 2 || width_ * (rows + columns) >= rows * columns)
      return {
          .gradient = gradient, .left = take(left_end_, parameter.bytes), .bytes = parameter.bytes};
    const std::size_t thin = static_cast<std::size_t>(width_) * sizeof(float);
    Part part{.gradient = gradient,
              .left = take(left_end_, static_cast<std::size_t>(rows) * thin),
              .right = take(right_end_, static_cast<std::size_t>(columns) * thin),
              .rest = take(rest_end_, plain.bytes),
              .bytes = parameter.bytes,
              .plain_bytes = plain.bytes,
              .rows = static_cast<std::size_t>(rows)};
    part.reorder = backend().make(ops::ReorderDesc{parameter.layout, plain});
    part.product =
        backend().make(ops::LinearDesc{.input = ops::TensorLayout::plain({rows, columns}),
                                       .out_features = width_,
                                       .bias = false,
                                       .is_plain = true});
    workspace_bytes_ = std::max({workspace_bytes_, part.reorder->plan().workspace_bytes,
                                 part.product->plan().workspace_bytes});
    plain_bytes_ = std::max(plain_bytes_, plain.bytes);
    return part;
  }

  // Hands out the next part of a memory.
  static std::size_t take(std::size_t& end, std::size_t bytes) {
    return std::exchange(end, end + round_up(bytes, nn::kParameterAlignment));
  }

  const std::int64_t width_;
  const std::uint64_t seed_;
  std::vector<std::vector<Part>> parts_;                   // [bucket]
  std::vector<std::size_t> left_ends_{0}, right_ends_{0};  // of the buckets before
  std::size_t left_end_ = 0, right_end_ = 0, rest_end_ = 0, plain_bytes_ = 0, workspace_bytes_ = 0;
  Buffer left_, right_, rest_, plain_, workspace_;  // plain_: one matrix, row-major
  Registrations registered_;
};

}  // namespace

std::unique_ptr<CommHook> make_power_sgd(std::int64_t width, std::uint64_t seed,
                                         const StrategyContext& context) {
  return std::make_unique<PowerSgd>(width, seed, context);
}

}  // namespace ddpbench
