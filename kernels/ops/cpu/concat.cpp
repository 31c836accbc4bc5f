// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// concat as copies of memory, in whatever layout joins the inputs' pieces without tearing them. No
// FLOPs; every byte is read and written once, each way.
//
// oneDNN's concat is the same copies forward. It has no backward, which would be a reorder from a
// part of the output for each input.
#include <algorithm>
#include <cstring>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// Whether the channels of all inputs but the last, whose padding ends the output, fill whole
// blocks.
bool fill_blocks(const ConcatDesc& desc, std::int64_t block) {
  return std::all_of(desc.inputs.begin(), desc.inputs.end() - 1,
                     [&](const TensorLayout& input) { return input.shape[1] % block == 0; });
}

class Concat : public Op {
 public:
  Concat(Team team, const ConcatDesc& desc) : Op(plain_plan(desc)), team_(team) {
    const Shape& first = desc.inputs[0].shape;
    const std::int64_t block = channel_block(desc.inputs[0]);
    const bool blocked = (block == 8 || block == 16) && fill_blocks(desc, block);
    const bool channels_last = !blocked && block > 1 && block == first[1];
    const auto layout = [&, type = desc.inputs[0].type](const Shape& shape) {
      if (channels_last) return image_layout(shape, shape[1], type);
      return blocked ? image_layout(shape, block, type) : TensorLayout::plain(shape, type);
    };
    // A piece is what one input gives in a row of the output: a pixel or a sample.
    rows_ = first[0] * (channels_last ? first[2] * first[3] : 1);
    const auto bytes_of_row = [&](const TensorLayout& map) {
      return map.bytes / static_cast<std::size_t>(rows_);
    };
    for (TensorLayout& input : plan_.inputs) {
      input = layout(input.shape);
      pieces_.push_back(bytes_of_row(input));
    }
    plan_.output = layout(plan_.output.shape);
    row_bytes_ = bytes_of_row(plan_.output);
  }

  void forward(Stream&, const ForwardArgs& args) override {
    auto* const to = static_cast<std::byte*>(args.output);
    for_each_piece([&](std::size_t input, std::size_t in_output, std::size_t in_input) {
      const auto* from = static_cast<const std::byte*>(args.inputs[input]);
      std::memcpy(to + in_output, from + in_input, pieces_[input]);
    });
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* const from = static_cast<const std::byte*>(args.grad_output);
    for_each_piece([&](std::size_t input, std::size_t in_output, std::size_t in_input) {
      auto* const to = static_cast<std::byte*>(args.grad_inputs[input]);
      if (to) std::memcpy(to + in_input, from + in_output, pieces_[input]);
    });
  }

 private:
  // Calls body(input, offset in the output, offset in the input) for each piece.
  template <typename Body>
  void for_each_piece(const Body& body) const {
    const auto elements =
        static_cast<std::int64_t>(plan_.output.bytes / size_of(plan_.output.type));
    const int threads = elements < kMinParallelElements ? 1 : team_.threads;
    parallel_shares(threads, rows_, 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
        std::size_t in_output = row * row_bytes_;
        for (std::size_t i = 0; i < pieces_.size(); in_output += pieces_[i++])
          body(i, in_output, row * pieces_[i]);
      }
    });
  }

  Team team_;
  std::int64_t rows_ = 0;
  std::size_t row_bytes_ = 0;
  std::vector<std::size_t> pieces_;  // bytes of one piece of each input
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const ConcatDesc& desc) {
  return std::make_unique<Concat>(team, desc);
}

}  // namespace ddpbench::ops::cpu
