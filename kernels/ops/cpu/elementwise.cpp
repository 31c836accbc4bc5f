// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth-bound loops: activate moves 2 elements of memory for each of the result,
// activation_backward and add 3.

#include <algorithm>
#include <cstring>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {

namespace {

// to[i] = compute(a[i], b[i])
template <typename Compute>
void transform(Team team, DataType type, const void* first, const void* second, void* result,
               std::int64_t count, const Compute& compute) {
  with_element(type, [&]<typename T>(T) {
    const auto *const a = static_cast<const T*>(first), *const b = static_cast<const T*>(second);
    auto* const to = static_cast<T*>(result);
    parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
      run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
        for (std::int64_t i = begin; i < end; ++i) to[i] = compute(a[i], b[i]);
      });
    });
  });
}

}  // namespace

void activate(Team team, Activation kind, DataType type, const void* x, void* y,
              std::int64_t count) {
  with_activation(kind, [=](auto known) {
    transform(team, type, x, x, y, count, [=]<typename T>(T value, T) DDPBENCH_SIMD_BODY {
      if constexpr (known == Activation::relu) return value < 0 ? T{} : value;
      return from_float<T>(ops::activate(known, value));
    });
  });
}

// Both are always read: a conditional read would not vectorise.
void activation_backward(Team team, Activation kind, DataType type, const void* y, const void* dy,
                         void* dx, std::int64_t count) {
  with_activation(kind, [=](auto known) {
    transform(team, type, y, dy, dx, count, [=]<typename T>(T output, T grad) DDPBENCH_SIMD_BODY {
      if constexpr (known == Activation::relu) return output <= 0 ? T{} : grad;
      return from_float<T>(activation_gradient(known, output, grad));
    });
  });
}

void add(Team team, DataType type, const void* a, const void* b, void* sum, std::int64_t count) {
  transform(team, type, a, b, sum, count, []<typename T>(T x, T y) DDPBENCH_SIMD_BODY {
    return from_float<T>(static_cast<float>(x) + static_cast<float>(y));
  });
}

// The columns are split over the team: one thread makes each sum, in one order.
void column_sums(Team team, DataType type, const void* from, std::int64_t rows,
                 std::int64_t columns, float* sums, bool accumulate) {
  const int threads = rows * columns < kMinParallelElements ? 1 : team.threads;
  with_element(type, [&](auto element) {
    const auto* const matrix = static_cast<const decltype(element)*>(from);
    parallel_shares(threads, columns, 16, [=](int, std::int64_t begin, std::int64_t end) {
      if (!accumulate) std::fill(sums + begin, sums + std::max(begin, end), 0.0F);
      for (std::int64_t i = 0; i < rows; ++i)
        run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
          for (std::int64_t j = begin; j < end; ++j)
            sums[j] += static_cast<float>(matrix[i * columns + j]);
        });
    });
  });
}

namespace {

class CpuElementwiseOp : public Op {
 protected:
  CpuElementwiseOp(Team team, OpPlan plan)
      : Op(std::move(plan)),
        team_(team),
        type_(plan_.output.type),
        count_(static_cast<std::int64_t>(plan_.output.bytes / size_of(type_))) {}

  Team team_;
  DataType type_;
  std::int64_t count_;
};

class ActivationOp : public CpuElementwiseOp {
 public:
  ActivationOp(Team team, const ActivationDesc& desc)
      : CpuElementwiseOp(team, plain_plan(desc)), kind_(desc.kind) {}
  void forward(Stream&, const ForwardArgs& args) override {
    activate(team_, kind_, type_, args.inputs[0], args.output, count_);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    activation_backward(team_, kind_, type_, args.output, args.grad_output, args.grad_inputs[0],
                        count_);
  }

 private:
  Activation kind_;
};

class Add : public CpuElementwiseOp {
 public:
  Add(Team team, const AddDesc& desc) : CpuElementwiseOp(team, plain_plan(desc)) {}
  void forward(Stream&, const ForwardArgs& args) override {
    add(team_, type_, args.inputs[0], args.inputs[1], args.output, count_);
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad && grad != args.grad_output) std::memcpy(grad, args.grad_output, plan_.output.bytes);
  }
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const ActivationDesc& desc) {
  return std::make_unique<ActivationOp>(team, desc);
}
std::unique_ptr<Op> make_op(Team team, const AddDesc& desc) {
  return std::make_unique<Add>(team, desc);
}

}  // namespace ddpbench::ops::cpu
