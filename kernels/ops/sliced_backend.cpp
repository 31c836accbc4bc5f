// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/backend.h"

namespace ddpbench::ops {
namespace {

// The distance of what two slices save, which is aligned as all memory is.
std::size_t saved_stride(const Op& slice) {
  return round_up(slice.plan().saved_bytes, std::size_t{64});
}

// The plan of `slice`, an operation for one of `slices` parts of a batch, for the whole of it.
OpPlan whole_plan(const Op& slice, std::int64_t slices) {
  const auto whole = [&](const TensorLayout& layout) {
    return for_samples(layout, slices * layout.shape[0]);
  };
  OpPlan plan = slice.plan();
  plan.description += fmt::format(" in {} slices", slices);
  plan.output = whole(plan.output);
  std::ranges::transform(plan.inputs, plan.inputs.begin(), whole);
  plan.saved_bytes = static_cast<std::size_t>(slices) * saved_stride(slice);
  plan.forward_flops *= static_cast<double>(slices);
  plan.backward_flops *= static_cast<double>(slices);
  return plan;
}

// Runs a convolution or a linear layer for each part of a batch.
class SlicedOp : public Op {
 public:
  SlicedOp(std::unique_ptr<Op> slice, std::int64_t slices)
      : Op(whole_plan(*slice, slices)),
        slice_(std::move(slice)),
        slices_(static_cast<std::size_t>(slices)) {}

  void forward(Stream& stream, const ForwardArgs& args) override {
    for (std::size_t i = 0; i < slices_; ++i) {
      ForwardArgs own = args;
      const void* const input = part(args.inputs[0], slice_->plan().inputs[0].bytes, i);
      own.inputs = {&input, 1};
      own.output = part(args.output, slice_->plan().output.bytes, i);
      own.saved = part(args.saved, saved_stride(*slice_), i);
      slice_->forward(stream, own);
    }
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const std::size_t in = slice_->plan().inputs[0].bytes, out = slice_->plan().output.bytes;
    for (std::size_t i = 0; i < slices_; ++i) {
      BackwardArgs own = args;
      const void* const input = part(args.inputs[0], in, i);
      own.inputs = {&input, 1};
      own.output = part(args.output, out, i);
      own.grad_output = part(args.grad_output, out, i);
      void* const grad_input =
          args.grad_inputs.empty() ? nullptr : part(args.grad_inputs[0], in, i);
      own.grad_inputs = {&grad_input, args.grad_inputs.size()};
      own.saved = part(args.saved, saved_stride(*slice_), i);
      own.accumulate = args.accumulate || i > 0;
      slice_->backward(stream, own);
    }
  }

 private:
  // The part `i` of what begins at `whole`, each of so many bytes; null stays null.
  template <typename T>
  static T* part(T* whole, std::size_t bytes, std::size_t i) {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return whole == nullptr ? nullptr : static_cast<Byte*>(whole) + i * bytes;
  }

  std::unique_ptr<Op> slice_;
  std::size_t slices_;
};

// The input of an operation that is to be divided; null: it is not.
TensorLayout* divided_input(OpDesc& desc) {
  if (auto* const conv = std::get_if<Conv2dDesc>(&desc)) return &conv->input;
  if (auto* const linear = std::get_if<LinearDesc>(&desc)) return &linear->input;
  return nullptr;
}

}  // namespace

void OpBackend::slice(std::int64_t samples, std::size_t alignment) {
  ensure(samples > 0, "slices of {} samples", samples);
  slice_samples_ = samples;
  slice_alignment_ = alignment;
}

// An operation is run for each of so many devices; 1 also where it need not be divided.
std::int64_t OpBackend::slices_of(OpDesc desc) const {
  const TensorLayout* const input = divided_input(desc);
  if (slice_samples_ == 0 || input == nullptr || input->shape[0] % slice_samples_ != 0) return 1;
  return std::max<std::int64_t>(1, input->shape[0] / slice_samples_);
}

std::unique_ptr<Op> OpBackend::make(const OpDesc& desc) {
  const std::int64_t slices = slices_of(desc);
  if (slices == 1) return make_whole(desc);
  OpDesc of_slice = desc;
  TensorLayout& input = *divided_input(of_slice);
  input = for_samples(input, slice_samples_);
  std::unique_ptr<Op> slice = make_whole(of_slice);
  // Slices of its maps must be read and written where they lie.
  const bool may_begin_inside = slice->plan().inputs[0].bytes % slice_alignment_ == 0 &&
                                slice->plan().output.bytes % slice_alignment_ == 0;
  if (!may_begin_inside) return make_whole(desc);
  return std::make_unique<SlicedOp>(std::move(slice), slices);
}

// The micro-batch that a device's own batch is divided into, which also divides this one; the
// device's batch where that is not divided.
std::int64_t OpBackend::micro_batch_hint(std::size_t bytes_per_sample) const {
  std::int64_t hint = whole_hint(bytes_per_sample);
  if (slice_samples_ == 0 || hint <= 0) return hint;
  hint = std::min(hint, slice_samples_);
  while (slice_samples_ % hint != 0) --hint;
  return hint;
}

}  // namespace ddpbench::ops
