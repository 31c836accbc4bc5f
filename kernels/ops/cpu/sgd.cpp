// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// 7 operations and 20 bytes an element (12 without momentum): bound by memory bandwidth.
#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/parallel.h"

namespace ddpbench::ops::cpu {
namespace {

struct Factors {
  float lr, momentum, weight_decay, grad_scale;
};

class VectorSgd : public Sgd {
 public:
  explicit VectorSgd(Team team) : team_(team) {}

  void run(Stream&, const SgdArgs& args) override {
    const Factors factors = {static_cast<float>(args.options.lr),
                             static_cast<float>(args.options.momentum),
                             static_cast<float>(args.options.weight_decay), args.grad_scale};
    ensure(factors.momentum == 0 || args.velocity || args.count == 0,
           "SGD with momentum {} has no velocity buffer", factors.momentum);
    parallel_elements(team_.threads, static_cast<std::int64_t>(args.count),
                      [&](std::int64_t begin, std::int64_t end) {
                        if (factors.momentum != 0)
                          with_momentum(args, factors, begin, end);
                        else
                          without_momentum(args, factors, begin, end);
                      });
  }

 private:
  void with_momentum(const SgdArgs& args, Factors f, std::int64_t begin, std::int64_t end) const {
    float* const w = args.weights;
    float* const v = args.velocity;
    const float* const g = args.gradients;
    run_simd(team_.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        v[i] = f.momentum * v[i] + (g[i] * f.grad_scale + f.weight_decay * w[i]);
        w[i] -= f.lr * v[i];
      }
    });
  }

  void without_momentum(const SgdArgs& args, Factors f, std::int64_t begin,
                        std::int64_t end) const {
    float* const w = args.weights;
    const float* const g = args.gradients;
    run_simd(team_.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i)
        w[i] -= f.lr * (g[i] * f.grad_scale + f.weight_decay * w[i]);
    });
  }

  Team team_;
};

}  // namespace

std::unique_ptr<Sgd> make_sgd(Team team) { return std::make_unique<VectorSgd>(team); }

}  // namespace ddpbench::ops::cpu
