// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d of the CUDA backend against the reference loops.
#include "base/error.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

struct Case {
  std::string name;
  Conv2dDesc desc;
  ConvolutionKernels convolutions;
};

// All convolutions with the library, and with own kernels where there are any.
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const ConvCase& c : conv_cases()) {
    cases.push_back({c.name, c.desc, ConvolutionKernels::library});
  }
  for (const ConvCase& c : few_channel_conv_cases()) {
    cases.push_back({c.name, c.desc, ConvolutionKernels::own});
  }
  return cases;
}

class CudaConv2d : public CudaOps, public ::testing::WithParamInterface<Case> {
 protected:
  static const Conv2dDesc& desc() { return GetParam().desc; }
  static BackendFixture backend(CudaPrecision precision, bool deterministic = false) {
    return cuda_backend({.precision = precision,
                         .deterministic = deterministic,
                         .convolutions = GetParam().convolutions});
  }
  // Roundings would decide what a ReLU cuts off.
  static Conv2dDesc without_relu() {
    Conv2dDesc result = desc();
    result.fuse_relu = false;
    return result;
  }

  static OpOutputs reference(const Conv2dDesc& conv, const OpInputs& in) {
    BackendFixture plain = BackendFixture::reference();
    const auto op = plain.backend().make(conv);
    return run(plain, *op, in);
  }

  template <typename Tolerance>
  static void compare(const OpOutputs& got, const OpOutputs& want, const Tolerance& tolerance) {
    const std::int64_t window = desc().window.kernel_h * desc().window.kernel_w;
    const auto pixels = static_cast<std::int64_t>(want.output.size()) / desc().out_channels;
    EXPECT_TRUE(all_near(got.output, want.output,
                         tolerance(desc().input.shape[1] / desc().groups * window, want.output)));
    if (desc().needs_grad_input) {
      EXPECT_TRUE(
          all_near(got.grad_inputs[0], want.grad_inputs[0],
                   tolerance(desc().out_channels / desc().groups * window, want.grad_inputs[0])));
    }
    ASSERT_EQ(got.grad_parameters.size(), desc().bias ? 2U : 1U);
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i) {
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                           tolerance(pixels, want.grad_parameters[i])));
    }
  }
};

TEST_P(CudaConv2d, EqualsTheReferenceForWholeNumbers) {
  for (const CudaPrecision precision : precisions()) {
    BackendFixture fixture = backend(precision);
    const auto op = fixture.backend().make(desc());
    SCOPED_TRACE(op->plan().description);
    OpInputs in = whole_inputs(*op, 1);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs want = reference(desc(), in);
    const auto tolerance = [&](std::int64_t, const Values& values) {
      return whole_tolerance(precision, values);
    };
    compare(run(fixture, *op, in), want, tolerance);
    // When accumulated: the rounding of each gradient and that of the sum.
    for (const Values& gradient : want.grad_parameters) {
      in.initial_gradients.push_back(whole_values(static_cast<std::int64_t>(gradient.size()), 77));
    }
    compare(run(fixture, *op, in), reference(desc(), in), tolerance);
  }
}

TEST_P(CudaConv2d, IsNearTheReferenceForRandomNumbers) {
  for (const CudaPrecision precision : precisions()) {
    BackendFixture fixture = backend(precision);
    const auto op = fixture.backend().make(without_relu());
    SCOPED_TRACE(op->plan().description);
    OpInputs in = random_inputs(*op, 1);
    in.want_grad_inputs = desc().needs_grad_input;
    compare(run(fixture, *op, in), reference(without_relu(), in),
            [&](std::int64_t terms, const Values& want) {
              return random_tolerance(precision, terms, want);
            });
  }
}

TEST_P(CudaConv2d, RepeatsItsBitsWhenDeterministicAlsoWhenRecorded) {
  for (const CudaPrecision precision : precisions()) {
    BackendFixture fixture = backend(precision, true);
    const auto op = fixture.backend().make(desc());
    SCOPED_TRACE(op->plan().description);
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    for (const Execution execution : {Execution::direct, Execution::recorded}) {
      expect_same_bits(run(fixture, *op, in, execution), first);
    }
  }
}

TEST_P(CudaConv2d, RunsOnWhatWasAskedFor) {
  BackendFixture fixture = backend(CudaPrecision::fp32);
  const bool own =
      fixture.backend().make(desc())->plan().description.find("(own kernel)") != std::string::npos;
  EXPECT_EQ(own, GetParam().convolutions == ConvolutionKernels::own);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaConv2d, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

using CudaConv2dPlan = CudaOps;

TEST_F(CudaConv2dPlan, KeepsChannelsLast) {
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  const auto op = fixture.backend().make(conv({2, 3, 6, 6}, 4, 3));
  EXPECT_EQ(op->plan().inputs[0].tag, "nhwc");
  EXPECT_EQ(op->plan().output.tag, "nhwc");
  EXPECT_EQ(op->plan().parameters[0].layout.tag, "ohwi");
  EXPECT_EQ(op->plan().parameters[0].shape, (Shape{4, 3, 3, 3}));
  EXPECT_EQ(op->plan().parameters[1].layout.tag, "plain");
}

TEST_F(CudaConv2dPlan, ReadsOneChannelAsItComes) {
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  const auto op = fixture.backend().make(conv({2, 1, 6, 6}, 4, 3));
  EXPECT_EQ(op->plan().inputs[0].tag, "plain");
}

// The own kernels know neither groups nor dilation. Without these they run the same convolutions.
TEST_F(CudaConv2dPlan, LeavesGroupsAndDilationToTheLibrary) {
  Conv2dDesc dilated = first_layer(conv({2, 1, 10, 10}, 8, 3, 1, 2));
  Conv2dDesc grouped = first_layer(conv({2, 3, 9, 9}, 6, 3, 1, 1));
  BackendFixture fixture =
      cuda_backend({.precision = CudaPrecision::fp32, .convolutions = ConvolutionKernels::own});
  const auto runs_own_kernel = [&](const Conv2dDesc& desc) {
    const std::string description = fixture.backend().make(desc)->plan().description;
    return description.find("own kernel") != std::string::npos;
  };
  EXPECT_TRUE(runs_own_kernel(dilated));
  EXPECT_TRUE(runs_own_kernel(grouped));
  dilated.dilation = {2, 2};
  grouped.groups = 3;
  for (const Conv2dDesc& desc : {dilated, grouped}) EXPECT_FALSE(runs_own_kernel(desc));
}

TEST_F(CudaConv2dPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().make(conv({2, 3, 4, 4}, 4, 5)), ConfigError);
  EXPECT_THROW(fixture.backend().make(conv({2, 3, 4}, 4, 3)), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
