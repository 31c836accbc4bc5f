// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference mean, in double precision. k operations and 4 (k + 1) bytes an element (mean.h).
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class PlainMean final : public Mean {
 public:
  void run(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const float* input : inputs) sum += input[i];
      out[i] = static_cast<float>(sum / static_cast<double>(inputs.size()));
    }
  }
};

}  // namespace

std::unique_ptr<Mean> make_mean() { return std::make_unique<PlainMean>(); }

}  // namespace ddpbench::ops::reference
