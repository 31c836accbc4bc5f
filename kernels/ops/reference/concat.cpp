// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference concat: in plain layouts each sample's channels of one input lie together. No FLOPs;
// every byte is read and written once.
#include <algorithm>

#include "kernels/ops/op.h"
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class Concat : public Op {
 public:
  explicit Concat(const ConcatDesc& desc) : Op(plain_plan(desc)) {}

  void forward(Stream&, const ForwardArgs& args) override {
    auto* y = static_cast<float*>(args.output);
    for (std::int64_t n = 0; n < plan_.output.shape[0]; ++n)
      for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
        const auto* x = static_cast<const float*>(args.inputs[i]) + n * sample_size(i);
        y = std::copy(x, x + sample_size(i), y);
      }
  }

  void backward(Stream&, const BackwardArgs& args) override {
    const auto* dy = static_cast<const float*>(args.grad_output);
    for (std::int64_t n = 0; n < plan_.output.shape[0]; ++n)
      for (std::size_t i = 0; i < plan_.inputs.size(); dy += sample_size(i++))
        if (args.grad_inputs[i])
          std::copy(dy, dy + sample_size(i),
                    static_cast<float*>(args.grad_inputs[i]) + n * sample_size(i));
  }

 private:
  std::int64_t sample_size(std::size_t i) const {
    return element_count(plan_.inputs[i].shape) / plan_.inputs[i].shape[0];
  }
};

}  // namespace

std::unique_ptr<Op> make_op(const ConcatDesc& desc) { return std::make_unique<Concat>(desc); }

}  // namespace ddpbench::ops::reference
