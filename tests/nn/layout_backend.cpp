// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Wraps each reference operation. "reversed" is the order of a sample's values in memory.
#include "tests/nn/layout_backend.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace ddpbench::nn {
namespace {

using namespace ops;

TensorLayout reversed(TensorLayout layout) {
  layout.tag = "reversed";
  return layout;
}

void reverse_samples(const TensorLayout& layout, const void* from, void* to) {
  const auto* source = static_cast<const float*>(from);
  auto* target = static_cast<float*>(to);
  const std::int64_t batch = layout.shape[0], sample = element_count(layout.shape) / batch;
  for (std::int64_t i = 0; i < batch; ++i) {
    std::reverse_copy(source + i * sample, source + (i + 1) * sample, target + i * sample);
  }
}

// Has the plan of another op, which derived classes change.
class Wrapped : public Op {
 public:
  explicit Wrapped(std::unique_ptr<Op> op) : Op(op->plan()), op_(std::move(op)) {}
  void forward(Stream& s, const ForwardArgs& args) override { op_->forward(s, args); }
  void backward(Stream& s, const BackwardArgs& args) override { op_->backward(s, args); }
  void recompute(Stream& s, const ForwardArgs& args) override { op_->recompute(s, args); }

 protected:
  std::unique_ptr<Op> op_;
};

class Coupled : public Wrapped {
 public:
  explicit Coupled(std::unique_ptr<Op> op) : Wrapped(std::move(op)) {
    plan_.couples_samples = true;
  }
};

// Works element by element, so in any order of the elements.
class AnyOrder : public Wrapped {
 public:
  AnyOrder(std::unique_ptr<Op> op, const TensorLayout& layout) : Wrapped(std::move(op)) {
    plan_.inputs.assign(plan_.inputs.size(), layout);
    plan_.output = layout;
  }
};

// Has one input: converts it to plain, runs, converts back.
class Reversed : public Wrapped {
 public:
  explicit Reversed(std::unique_ptr<Op> op)
      : Wrapped(std::move(op)), input_(reversed(plan_.inputs[0])), output_(reversed(plan_.output)) {
    plan_.inputs = {input_};
    plan_.output = output_;
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    std::vector<float> x = plain(input_, args.inputs[0]), y(output_.bytes / sizeof(float));
    const void* const inputs[] = {x.data()};
    ForwardArgs inner = args;
    inner.inputs = inputs;
    inner.output = y.data();
    op_->forward(stream, inner);
    reverse_samples(output_, y.data(), args.output);
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    std::vector<float> x = plain(input_, args.inputs[0]), y = plain(output_, args.output);
    std::vector<float> dy = plain(output_, args.grad_output), dx(input_.bytes / sizeof(float));
    const void* const inputs[] = {args.inputs[0] ? x.data() : nullptr};
    void* const grad_inputs[] = {args.grad_inputs[0] ? dx.data() : nullptr};
    BackwardArgs inner = args;
    inner.inputs = inputs;
    inner.output = args.output ? y.data() : nullptr;
    inner.grad_output = dy.data();
    inner.grad_inputs = grad_inputs;
    op_->backward(stream, inner);
    if (args.grad_inputs[0]) reverse_samples(input_, dx.data(), args.grad_inputs[0]);
  }

 private:
  static std::vector<float> plain(const TensorLayout& layout, const void* from) {
    std::vector<float> values(layout.bytes / sizeof(float));
    if (from) reverse_samples(layout, from, values.data());
    return values;
  }
  TensorLayout input_, output_;
};

class ReversingReorder : public Op {
 public:
  explicit ReversingReorder(const ReorderDesc& desc)
      : Op({.description = "reverse", .inputs = {desc.from}, .output = desc.to}) {}
  void forward(Stream&, const ForwardArgs& args) override {
    reverse_samples(plan_.inputs[0], args.inputs[0], args.output);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0])
      reverse_samples(plan_.inputs[0], args.grad_output, args.grad_inputs[0]);
  }
};

class PeculiarBackend : public OpBackend {
 public:
  struct Peculiarities {
    bool odd_layouts = false, coupled_adds = false;
  };
  explicit PeculiarBackend(const Peculiarities& has)
      : plain_(make_reference_backend()), has_(has) {}

  std::string name() const override { return "peculiar"; }
  std::unique_ptr<Op> make_whole(const OpDesc& desc) override {
    if (const auto* reorder = std::get_if<ReorderDesc>(&desc)) {
      return std::make_unique<ReversingReorder>(*reorder);
    }
    auto op = plain_->make(desc);
    const auto* const pool = std::get_if<MaxPool2dDesc>(&desc);
    if (pool != nullptr && pool->to_plain) return op;
    if (std::holds_alternative<Conv2dDesc>(desc) || std::holds_alternative<MaxPool2dDesc>(desc)) {
      return odd(std::move(op));
    }
    if (const auto* relu = std::get_if<ActivationDesc>(&desc)) {
      return std::make_unique<AnyOrder>(std::move(op), relu->input);
    }
    if (const auto* add = std::get_if<AddDesc>(&desc)) {
      if (has_.coupled_adds) return std::make_unique<Coupled>(std::move(op));
      return std::make_unique<AnyOrder>(std::move(op), add->input);
    }
    return op;
  }
  void loss(Stream& stream, const CrossEntropyDesc& desc, const LossArgs& args) override {
    plain_->loss(stream, desc, args);
  }
  void update(Stream& stream, const OptimizerArgs& args) override { plain_->update(stream, args); }
  void find_overflow(Stream& stream, const float* gradients, std::size_t count,
                     LossScale* scale) override {
    plain_->find_overflow(stream, gradients, count, scale);
  }
  void mean(Stream& stream, std::span<const float* const> inputs, float* out,
            std::size_t count) override {
    plain_->mean(stream, inputs, out, count);
  }
  void encode(Stream& stream, const EncodeArgs& args) override { plain_->encode(stream, args); }
  void decode(Stream& stream, const DecodeArgs& args) override { plain_->decode(stream, args); }
  void orthonormalize(Stream& stream, const OrthonormalArgs& args) override {
    plain_->orthonormalize(stream, args);
  }
  void gather(Stream& stream, const GatherArgs& args) override { plain_->gather(stream, args); }
  void convert(const TensorLayout& from_layout, const void* from, const TensorLayout& to_layout,
               void* to) override {
    plain_->convert(from_layout, from, to_layout, to);
  }

 private:
  std::unique_ptr<Op> odd(std::unique_ptr<Op> op) const {
    if (!has_.odd_layouts) return op;
    return std::make_unique<Reversed>(std::move(op));
  }

  std::unique_ptr<OpBackend> plain_;
  Peculiarities has_;
};

std::unique_ptr<OpBackend> peculiar(const PeculiarBackend::Peculiarities& has) {
  return std::make_unique<PeculiarBackend>(has);
}

}  // namespace

std::unique_ptr<ops::OpBackend> odd_layouts(Device&) { return peculiar({.odd_layouts = true}); }

std::unique_ptr<ops::OpBackend> coupled_adds(Device&) { return peculiar({.coupled_adds = true}); }

}  // namespace ddpbench::nn
