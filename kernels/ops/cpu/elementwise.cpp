// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth-bound loops: relu_forward moves 2 elements of memory for each of the result,
// relu_backward and add 3.
#include "kernels/ops/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {

template <typename T>
void relu_forward(Team team, const T* x, T* y, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T value = x[i];
        y[i] = value < 0 ? T{} : value;
      }
    });
  });
}

template <typename T>
void relu_backward(Team team, const T* y, const T* dy, T* dx, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T grad = dy[i];  // always read: a conditional read would not vectorise
        dx[i] = y[i] <= 0 ? T{} : grad;
      }
    });
  });
}

template <typename T>
void add(Team team, const T* a, const T* b, T* sum, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i)
        sum[i] = from_float<T>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    });
  });
}

// The columns are split over the team: one thread makes each sum, in one order.
template <typename T>
void column_sums(Team team, const T* matrix, std::int64_t rows, std::int64_t columns, float* sums,
                 bool accumulate) {
  const int threads = rows * columns < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, columns, 16, [=](int, std::int64_t begin, std::int64_t end) {
    if (!accumulate) std::fill(sums + begin, sums + std::max(begin, end), 0.0F);
    for (std::int64_t i = 0; i < rows; ++i)
      run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
        for (std::int64_t j = begin; j < end; ++j)
          sums[j] += static_cast<float>(matrix[i * columns + j]);
      });
  });
}

#define DDPBENCH_ELEMENTWISE(T)                                            \
  template void relu_forward(Team, const T*, T*, std::int64_t);            \
  template void relu_backward(Team, const T*, const T*, T*, std::int64_t); \
  template void add(Team, const T*, const T*, T*, std::int64_t);           \
  template void column_sums(Team, const T*, std::int64_t, std::int64_t, float*, bool);
DDPBENCH_ELEMENTWISE(float)
DDPBENCH_ELEMENTWISE(BFloat16)

namespace {

class CpuElementwiseOp : public ElementwiseOp {
 protected:
  CpuElementwiseOp(Team team, const TensorLayout& layout, const char* name, std::size_t inputs)
      : ElementwiseOp(layout, name, inputs), team_(team) {}
  std::int64_t count() const {
    return static_cast<std::int64_t>(plan_.output.bytes / size_of(plan_.output.type));
  }

  Team team_;
};

class Relu : public CpuElementwiseOp {
 public:
  Relu(Team team, const ReluDesc& desc) : CpuElementwiseOp(team, desc.input, "relu", 1) {
    plan_.needs_output = true;
  }
  void forward(Stream&, const ForwardArgs& args) override {
    with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      relu_forward(team_, static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.output),
                   count());
    });
  }
  void backward(Stream&, const BackwardArgs& args) override {
    if (!args.grad_inputs[0]) return;
    with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      relu_backward(team_, static_cast<const T*>(args.output),
                    static_cast<const T*>(args.grad_output), static_cast<T*>(args.grad_inputs[0]),
                    count());
    });
  }
};

class Add : public CpuElementwiseOp {
 public:
  Add(Team team, const AddDesc& desc) : CpuElementwiseOp(team, desc.input, "add", 2) {}
  void forward(Stream&, const ForwardArgs& args) override {
    with_element(plan_.output.type, [&](auto element) {
      using T = decltype(element);
      add(team_, static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
          static_cast<T*>(args.output), count());
    });
  }
  void backward(Stream&, const BackwardArgs& args) override {
    for (void* grad : args.grad_inputs)
      if (grad && grad != args.grad_output) std::memcpy(grad, args.grad_output, plan_.output.bytes);
  }
};

}  // namespace

std::unique_ptr<Op> make_op(Team team, const ReluDesc& desc) {
  return std::make_unique<Relu>(team, desc);
}
std::unique_ptr<Op> make_op(Team team, const AddDesc& desc) {
  return std::make_unique<Add>(team, desc);
}

}  // namespace ddpbench::ops::cpu
