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

class SlicedBackend : public OpBackend {
 public:
  SlicedBackend(std::unique_ptr<OpBackend> backend, std::int64_t samples, std::size_t alignment)
      : backend_(std::move(backend)), samples_(samples), alignment_(alignment) {
    ensure(samples > 0, "slices of {} samples", samples);
  }

  std::string name() const override { return backend_->name(); }

  std::unique_ptr<Op> make(const OpDesc& desc) override {
    const std::int64_t slices = slices_of(desc);
    if (slices == 1) return backend_->make(desc);
    OpDesc of_slice = desc;
    TensorLayout& input = *divided_input(of_slice);
    input = for_samples(input, samples_);
    std::unique_ptr<Op> slice = backend_->make(of_slice);
    if (!may_begin_inside(*slice)) return backend_->make(desc);
    return std::make_unique<SlicedOp>(std::move(slice), slices);
  }

  // Alone, a convolution or linear layer gives each sample the bits that its device gives it; on
  // GPUs only where the device does not join it with a pool.
  FusedOp fuse(std::span<const OpDesc> chain) override {
    return slices_of(chain[0]) == 1 ? backend_->fuse(chain) : FusedOp{};
  }

  void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) override {
    backend_->loss(stream, desc, args);
  }
  std::size_t loss_workspace_bytes(const CrossEntropyDesc& desc) const override {
    return backend_->loss_workspace_bytes(desc);
  }
  void update(Stream& stream, const OptimizerArgs& args) override {
    backend_->update(stream, args);
  }
  void mean(Stream& stream, std::span<const float* const> inputs, float* out,
            std::size_t count) override {
    backend_->mean(stream, inputs, out, count);
  }
  void gather(Stream& stream, const GatherArgs& args) override { backend_->gather(stream, args); }
  void increment(Stream& stream, std::int64_t* counter) override {
    backend_->increment(stream, counter);
  }
  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    backend_->convert(from_layout, from, to_layout, to);
  }

  // The micro-batch that a device's own batch is divided into, which also divides this one; the
  // device's batch where that is not divided.
  std::int64_t micro_batch_hint(std::size_t bytes_per_sample) const override {
    std::int64_t hint = backend_->micro_batch_hint(bytes_per_sample);
    if (hint <= 0) return 0;
    hint = std::min(hint, samples_);
    while (samples_ % hint != 0) --hint;
    return hint;
  }

 private:
  // An operation is run for each of so many devices; 1 also where it need not be divided.
  std::int64_t slices_of(OpDesc desc) const {
    const TensorLayout* const input = divided_input(desc);
    if (input == nullptr || input->shape[0] % samples_ != 0) return 1;
    return std::max<std::int64_t>(1, input->shape[0] / samples_);
  }

  // Whether slices of its maps may be read and written where they lie.
  bool may_begin_inside(const Op& slice) const {
    return slice.plan().inputs[0].bytes % alignment_ == 0 &&
           slice.plan().output.bytes % alignment_ == 0;
  }

  std::unique_ptr<OpBackend> backend_;
  std::int64_t samples_;
  std::size_t alignment_;
};

}  // namespace

std::unique_ptr<OpBackend> make_sliced_backend(std::unique_ptr<OpBackend> backend,
                                               std::int64_t samples, std::size_t alignment) {
  return std::make_unique<SlicedBackend>(std::move(backend), samples, alignment);
}

}  // namespace ddpbench::ops
