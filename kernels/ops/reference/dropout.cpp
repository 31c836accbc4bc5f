// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference dropout (Srivastava et al., JMLR 15, 2014; scaled in training, as torch.nn.Dropout).
#include <cstring>

#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Dropout : public DropoutOp {
 public:
  explicit Dropout(const DropoutDesc& desc)
      : DropoutOp(desc, TensorLayout::plain(desc.input.shape)) {}

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
    const auto* x = static_cast<const float*>(from);
    auto* y = static_cast<float*>(to);
    for (std::int64_t s = 0; s < samples(); ++s) {
      const auto place = static_cast<std::uint32_t>(draw.places.of(draw.first_sample + s));
      for (std::int64_t e = 0; e < elements(); ++e) {
        const std::int64_t counter = e / kMaskGroup * kMaskLanes + e % kMaskLanes;
        const MaskWords words =
            draw_words(mask(), static_cast<std::uint32_t>(counter), place, *draw.step);
        const std::int64_t k = s * elements() + e;
        y[k] = x[k] * mask().factor(words.word[e % kMaskGroup / kMaskLanes]);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Op> make_op(const DropoutDesc& desc) { return std::make_unique<Dropout>(desc); }

}  // namespace ddpbench::ops::reference
