// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reorders between layouts and types: no FLOPs; every byte of both sides moves once.
//
// concat: one launch an input that copies its pieces into or out of the rows of the output. A row
// is a sample, or in channels-last layouts a pixel.
#include <algorithm>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

Transpose plan_change(const TensorLayout& from, const TensorLayout& to, const std::string& where) {
  const LayoutChange change = layout_change(from, to);
  element_index(element_count(from.shape), where);
  return {.batch = static_cast<std::uint32_t>(change.batch),
          .rows = static_cast<std::uint32_t>(change.rows),
          .columns = static_cast<std::uint32_t>(change.columns),
          .from_type = from.type,
          .to_type = to.type};
}

void run(Transpose plan, const void* from, void* to, cudaStream_t stream,
         const std::string& where) {
  plan.from = from;
  plan.to = to;
  check(transpose(plan, stream), where, "transpose");
}

class Reorder final : public Op {
 public:
  explicit Reorder(const ReorderDesc& desc)
      : Op(plain_plan(desc)),
        where_(fmt::format("{} of {}", plan_.description, to_string(desc.from.shape))),
        forward_(plan_change(desc.from, desc.to, where_)),
        backward_(plan_change(desc.to, desc.from, where_)) {}

  void forward(Stream& stream, const ForwardArgs& args) override {
    run(forward_, args.inputs[0], args.output, native_stream(stream), where_);
  }
  void backward(Stream& stream, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    run(backward_, args.grad_output, args.grad_inputs[0], native_stream(stream), where_);
  }

 private:
  std::string where_;
  Transpose forward_, backward_;
};

class Concat final : public Op {
 public:
  explicit Concat(const ConcatDesc& desc)
      : Op(plain_plan(desc)),
        where_(fmt::format("{} to {}", plan_.description, to_string(plan_.output.shape))) {
    choose_layouts(desc);
    const Shape& out = plan_.output.shape;
    const std::uint32_t outputs = element_index(element_count(out), where_);
    rows_ = element_index(is_nhwc(plan_.output) ? out[0] * out[2] * out[3] : out[0], where_);
    row_length_ = outputs / rows_;
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    for_each_input([&](std::size_t i, std::size_t offset, std::uint32_t length) {
      void* const to = static_cast<std::byte*>(args.output) + offset;
      PieceCopy copy{plan_.output.type, args.inputs[i], to, rows_, length};
      copy.from_pitch = length, copy.to_pitch = row_length_;
      check(copy_pieces(copy, native_stream(stream)), where_, "copy_pieces");
    });
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    for_each_input([&](std::size_t i, std::size_t offset, std::uint32_t length) {
      if (!args.grad_inputs[i]) return;
      const void* const from = static_cast<const std::byte*>(args.grad_output) + offset;
      PieceCopy copy{plan_.output.type, from, args.grad_inputs[i], rows_, length};
      copy.from_pitch = row_length_, copy.to_pitch = length;
      check(copy_pieces(copy, native_stream(stream)), where_, "copy_pieces");
    });
  }

 private:
  // Channels last and the narrower type, if any input is.
  void choose_layouts(const ConcatDesc& desc) {
    const bool channels_last = std::ranges::any_of(desc.inputs, is_nhwc);
    const DataType type = std::ranges::min(desc.inputs, {}, [](const TensorLayout& input) {
                            return size_of(input.type);
                          }).type;
    const auto layout = [&](const Shape& shape) {
      return channels_last ? nhwc_layout(shape, type) : TensorLayout::plain(shape, type);
    };
    for (std::size_t i = 0; i < desc.inputs.size(); ++i)
      plan_.inputs[i] = same_memory_or(desc.inputs[i], layout(desc.inputs[i].shape));
    plan_.output = layout(plan_.output.shape);
  }

  // Calls body(input, the byte at which its pieces begin in a row, their length) for each input.
  template <typename Body>
  void for_each_input(const Body& body) const {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      const auto count = static_cast<std::uint32_t>(element_count(plan_.inputs[i].shape));
      body(i, offset, count / rows_);
      offset += count / rows_ * size_of(plan_.output.type);
    }
  }

  std::string where_;
  std::uint32_t rows_ = 0, row_length_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_op(const ContextPtr&, const ReorderDesc& desc) {
  return std::make_unique<Reorder>(desc);
}

void convert(Context& context, const TensorLayout& from_layout, const void* from,
             const TensorLayout& to_layout, void* to) {
  const std::string where = fmt::format("conversion of {}", to_string(from_layout.shape));
  const Transpose plan = plan_change(from_layout, to_layout, where);
  check(cudaDeviceSynchronize(), where, "cudaDeviceSynchronize");
  const std::unique_ptr<Stream> stream = context.device.make_stream();
  run(plan, from, to, native_stream(*stream), where);
  stream->synchronize();
}

std::unique_ptr<Op> make_op(const ContextPtr&, const ConcatDesc& desc) {
  return std::make_unique<Concat>(desc);
}

}  // namespace ddpbench::ops::cuda
