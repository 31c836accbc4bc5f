// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference SGD, in double precision. 7 operations and 20 bytes an element (sgd.h).
#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class PlainSgd : public Sgd {
 public:
  void run(Stream&, const SgdArgs& args) override {
    const SgdOptions& o = args.options;
    for (std::size_t k = 0; k < args.count; ++k) {
      double step = static_cast<double>(args.gradients[k]) * args.grad_scale +
                    o.weight_decay * args.weights[k];
      if (o.momentum != 0) {
        step += o.momentum * args.velocity[k];
        args.velocity[k] = static_cast<float>(step);
      }
      args.weights[k] = static_cast<float>(args.weights[k] - o.lr * step);
    }
  }
};

}  // namespace

std::unique_ptr<Sgd> make_sgd() { return std::make_unique<PlainSgd>(); }

}  // namespace ddpbench::ops::reference
