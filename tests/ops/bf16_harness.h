// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations of CPU devices in bf16 against the reference in fp32.
//
// All values are rounded to bf16 before, so both sides start from the same. Products of two bf16
// factors are exact in fp32, and their sums are as those of fp32 (sum_tolerance). So only a result
// that goes into a bf16 map is rounded in addition, by at most 2^-8 of itself, once unless said.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/bfloat16.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {

inline constexpr double kHalfUnit = 0x1p-8;

class Bf16Test {
 protected:
  static void skip_without_bf16() {
    if (const std::string reason = why_no_cpu_bf16(); !reason.empty()) {
      GTEST_SKIP() << "CPU devices do not compute in bf16 here: " << reason;
    }
  }
};

template <typename Case>
class OnCases : public ::testing::TestWithParam<Case>, protected Bf16Test {
 protected:
  void SetUp() override { this->skip_without_bf16(); }
};
class OnShapes : public ::testing::Test, protected Bf16Test {
 protected:
  void SetUp() override { skip_without_bf16(); }
};

inline BackendFixture bf16_backend(int threads = 1) {
  return BackendFixture::on(make_cpu_device({.threads = threads}), [](Device& device) {
    return make_onednn_backend(device, DataType::bf16);
  });
}

inline void round_values(Values& values) {
  for (float& v : values) v = BFloat16::round(v);
}

inline OpInputs rounded_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in = random_inputs(op, seed);
  std::ranges::for_each(in.inputs, round_values);
  std::ranges::for_each(in.parameters, round_values);
  round_values(in.grad_output);
  return in;
}

// |got - want| <= tolerance + units * 2^-8 |want|, for a result that was rounded to `layout`'s
// type.
inline ::testing::AssertionResult near_rounded(const Values& got, const Values& want,
                                               double tolerance, const TensorLayout& layout,
                                               double units = 1) {
  const double unit = layout.type == DataType::bf16 ? units * kHalfUnit : 0;
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << want.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double bound = (1 + unit) * tolerance + unit * std::abs(static_cast<double>(want[i]));
    if (!(std::abs(static_cast<double>(got[i]) - want[i]) <= bound))
      return ::testing::AssertionFailure()
             << "element " << i << " is " << got[i] << ", expected " << want[i] << " +- " << bound;
  }
  return ::testing::AssertionSuccess();
}

// The tolerances of sums in fp32.
struct SumTolerances {
  double output, grad_input, grad_parameter;
};

inline SumTolerances conv_sums(const Conv2dDesc& desc, double scale = 1) {
  const Shape out = output_shape(desc);
  const std::int64_t window = desc.window.kernel_h * desc.window.kernel_w;
  return {.output = scale * sum_tolerance(desc.input.shape[1] / desc.groups * window + 1),
          .grad_input = scale * sum_tolerance(out[1] / desc.groups * window),
          .grad_parameter = scale * sum_tolerance(out[0] * out[2] * out[3] + 1)};
}

// Makes an operation for a team of so many threads.
using MakeOp = std::function<std::unique_ptr<Op>(BackendFixture& fixture, int threads)>;

inline MakeOp make_conv2d(const Conv2dDesc& desc, onednn::ConvAlgorithm algorithm) {
  return [=](BackendFixture&, int threads) {
    auto context = std::make_shared<onednn::Context>();
    context->threads = threads;
    context->activations = DataType::bf16;
    return onednn::make_conv2d(std::move(context), desc, algorithm);
  };
}

// Compares what `desc` computes in bf16, once and added to gradients that are there, with the
// reference. Returns the operation.
template <typename Desc>
std::unique_ptr<Op> compare_bf16(const Desc& desc, const SumTolerances& sums, const MakeOp& make) {
  BackendFixture plain = BackendFixture::reference();
  Desc plain_desc = desc;
  plain_desc.input = TensorLayout::plain(desc.input.shape);
  const auto reference = plain.backend().make(plain_desc);
  OpInputs in = rounded_inputs(*reference, 1);
  in.want_grad_inputs = desc.needs_grad_input;
  std::unique_ptr<Op> op;
  for (const bool accumulate : {false, true}) {
    if (accumulate) {
      for (const ParameterSpec& spec : reference->plan().parameters)
        in.initial_gradients.push_back(random_values(element_count(spec.shape), 9));
    }
    const OpOutputs want = run(plain, *reference, in);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = bf16_backend(threads);
      op = make(fixture, threads);
      SCOPED_TRACE(op->plan().description);
      for (const ParameterSpec& spec : op->plan().parameters)
        EXPECT_EQ(spec.layout.type, DataType::fp32) << spec.name;
      const OpOutputs got = run(fixture, *op, in);
      expect_same_bits(run(fixture, *op, in), got);
      EXPECT_TRUE(near_rounded(got.output, want.output, sums.output, op->plan().output));
      if (desc.needs_grad_input) {
        EXPECT_TRUE(near_rounded(got.grad_inputs[0], want.grad_inputs[0], sums.grad_input,
                                 op->plan().inputs[0]));
      }
      EXPECT_EQ(got.grad_parameters.size(), want.grad_parameters.size());
      for (std::size_t i = 0; i < got.grad_parameters.size(); ++i) {
        EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i], sums.grad_parameter));
      }
    }
  }
  return op;
}

}  // namespace ddpbench::ops::testing
