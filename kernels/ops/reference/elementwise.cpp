// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Activations, add, reorder, concat and dropout (Srivastava et al., JMLR 15, 2014; scaled in
// training, as torch.nn.Dropout): at most one operation and 8 to 12 bytes an element.
#include <algorithm>
#include <cstring>

#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class ActivationOp : public Op {
 public:
  explicit ActivationOp(const ActivationDesc& desc)
      : Op(plain_plan(ActivationDesc{TensorLayout::plain(desc.input.shape), desc.kind})),
        kind_(desc.kind) {}
  void forward(Stream&, const ForwardArgs& args) override {
    const auto* x = floats(args.inputs[0]);
    auto* y = floats(args.output);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k)
      y[k] = activate(kind_, x[k]);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    const auto* y = floats(args.output);
    const auto* dy = floats(args.grad_output);
    auto* dx = floats(args.grad_inputs[0]);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k)
      dx[k] = activation_gradient(kind_, y[k], dy[k]);
  }

 private:
  Activation kind_;
};

class Add : public Op {
 public:
  explicit Add(const AddDesc& desc)
      : Op(plain_plan(AddDesc{TensorLayout::plain(desc.input.shape)})) {}
  void forward(Stream&, const ForwardArgs& args) override {
    const auto* a = floats(args.inputs[0]);
    const auto* b = floats(args.inputs[1]);
    auto* y = floats(args.output);
    for (std::int64_t k = 0; k < element_count(plan_.output.shape); ++k) y[k] = a[k] + b[k];
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad) std::memmove(grad, args.grad_output, plan_.output.bytes);
  }
};

class Reorder : public Op {
 public:
  explicit Reorder(const ReorderDesc& desc) : Op(plain_plan(desc)) {
    if (desc.from.shape != desc.to.shape || !desc.from.is_plain() || !desc.to.is_plain())
      refuse_layouts("reorder", desc.from, desc.to);
  }
  void forward(Stream&, const ForwardArgs& args) override {
    std::memcpy(args.output, args.inputs[0], plan_.output.bytes);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0]) std::memcpy(args.grad_inputs[0], args.grad_output, plan_.output.bytes);
  }
};

// In plain layouts each sample's channels of one input lie together.
class Concat : public Op {
 public:
  explicit Concat(const ConcatDesc& desc) : Op(plain_plan(desc)) {}

  void forward(Stream&, const ForwardArgs& args) override {
    auto* y = floats(args.output);
    for (std::int64_t n = 0; n < plan_.output.shape[0]; ++n)
      for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
        const auto* x = floats(args.inputs[i]) + n * sample_size(i);
        y = std::copy(x, x + sample_size(i), y);
      }
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* dy = floats(args.grad_output);
    for (std::int64_t n = 0; n < plan_.output.shape[0]; ++n)
      for (std::size_t i = 0; i < plan_.inputs.size(); dy += sample_size(i++))
        if (args.grad_inputs[i])
          std::copy(dy, dy + sample_size(i), floats(args.grad_inputs[i]) + n * sample_size(i));
  }

 private:
  std::int64_t sample_size(std::size_t i) const {
    return element_count(plan_.inputs[i].shape) / plan_.inputs[i].shape[0];
  }
};

class Dropout : public DropoutOp {
 public:
  explicit Dropout(const DropoutDesc& desc)
      : DropoutOp({TensorLayout::plain(desc.input.shape), desc.p, desc.key}) {}

  void forward(Stream&, const ForwardArgs& args) override {
    if (args.mode == Mode::evaluation) {
      std::memcpy(args.output, args.inputs[0], plan_.output.bytes);
    } else {
      apply(args.draw, args.inputs[0], args.output);
    }
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (args.grad_inputs[0]) apply(args.draw, args.grad_output, args.grad_inputs[0]);
  }

 private:
  // to = from * (0 or the scale)
  void apply(const RandomDraw& draw, const void* from, void* to) const {
    const auto* x = floats(from);
    auto* y = floats(to);
    for (std::int64_t s = 0; s < samples(); ++s) {
      const auto place = static_cast<std::uint32_t>(draw.places.of(draw.first_sample + s));
      for (std::int64_t e = 0; e < elements(); ++e) {
        const std::int64_t counter = e / kMaskGroup * kMaskLanes + e % kMaskLanes;
        const MaskWords words =
            draw_words(mask_, static_cast<std::uint32_t>(counter), place, *draw.step);
        const std::int64_t k = s * elements() + e;
        y[k] = x[k] * mask_.factor(words.word[e % kMaskGroup / kMaskLanes]);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Op> make_op(const ActivationDesc& desc) {
  return std::make_unique<ActivationOp>(desc);
}
std::unique_ptr<Op> make_op(const AddDesc& desc) { return std::make_unique<Add>(desc); }
std::unique_ptr<Op> make_op(const ReorderDesc& desc) { return std::make_unique<Reorder>(desc); }
std::unique_ptr<Op> make_op(const ConcatDesc& desc) { return std::make_unique<Concat>(desc); }
std::unique_ptr<Op> make_op(const DropoutDesc& desc) { return std::make_unique<Dropout>(desc); }

}  // namespace ddpbench::ops::reference
