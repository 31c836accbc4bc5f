// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d of the CUDA backend against the reference loops.
#include "kernels/runtime/error.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

struct Case {
  const char* name;
  Conv2dDesc desc;
};

Conv2dDesc conv(Shape input, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
                std::int64_t pad = 0) {
  return {.input = TensorLayout::plain(std::move(input)),
          .out_channels = out,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

Conv2dDesc changed(Conv2dDesc desc, bool bias, bool relu, bool needs_grad_input = true) {
  desc.bias = bias, desc.fuse_relu = relu, desc.needs_grad_input = needs_grad_input;
  return desc;
}
Conv2dDesc oblong(Conv2dDesc desc) {
  desc.kernel_w = 5, desc.pad_w = 2, desc.stride_w = 2;
  return desc;
}

std::vector<Case> cases() {
  return {
      {"OneSampleOneChannel", conv({1, 1, 9, 9}, 8, 3, 1, 1)},
      {"NetworkFirstLayer", changed(conv({3, 1, 28, 28}, 32, 3, 1, 1), true, false, false)},
      {"NetworkFirstLayerWithRelu", changed(conv({2, 1, 28, 28}, 32, 3, 1, 1), true, true, false)},
      {"NetworkSecondLayer", conv({2, 32, 14, 14}, 64, 3, 1, 1)},
      {"WithRelu", changed(conv({3, 5, 7, 9}, 17, 3, 1, 1), true, true)},
      {"WithReluAndNoBias", changed(conv({2, 3, 6, 5}, 4, 3, 1, 1), false, true)},
      {"WithoutBias", changed(conv({2, 16, 8, 8}, 16, 3, 1, 1), false, false)},
      {"ThreeChannels", conv({2, 3, 11, 7}, 16, 3, 1, 1)},
      {"StrideWithoutPadding", conv({2, 16, 13, 13}, 16, 3, 2)},
      {"LargeKernel", conv({2, 6, 14, 14}, 16, 5)},
      {"OneByOne", conv({2, 16, 6, 5}, 24, 1)},
      {"OneOutputChannel", changed(conv({2, 4, 5, 5}, 1, 3), true, true)},
      {"KernelAsLargeAsTheMap", conv({2, 4, 5, 5}, 3, 5)},
      {"Oblong", changed(oblong(conv({2, 8, 9, 12}, 16, 3, 1, 1)), true, true)},
  };
}

class CudaConv2d : public CudaOps, public ::testing::WithParamInterface<Case> {
 protected:
  static const Conv2dDesc& desc() { return GetParam().desc; }
  // Roundings decide what a ReLU cuts off.
  static Conv2dDesc without_relu() {
    Conv2dDesc result = desc();
    result.fuse_relu = false;
    return result;
  }

  static OpOutputs reference(const Conv2dDesc& conv, const OpInputs& in) {
    BackendFixture plain = BackendFixture::reference();
    const auto op = plain.backend().conv2d(conv);
    return run(plain, *op, in);
  }

  template <typename Tolerance>
  static void compare(const OpOutputs& got, const OpOutputs& want, const Tolerance& tolerance) {
    const std::int64_t window = desc().kernel_h * desc().kernel_w;
    const auto pixels = static_cast<std::int64_t>(want.output.size()) / desc().out_channels;
    EXPECT_TRUE(
        all_near(got.output, want.output, tolerance(desc().input.shape[1] * window, want.output)));
    if (desc().needs_grad_input) {
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                           tolerance(desc().out_channels * window, want.grad_inputs[0])));
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
    BackendFixture fixture = cuda_backend({.precision = precision});
    const auto op = fixture.backend().conv2d(desc());
    SCOPED_TRACE(op->description());
    OpInputs in = whole_inputs(*op, 1);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs want = reference(desc(), in);
    const auto tolerance = [&](std::int64_t, const Values& values) {
      return whole_tolerance(precision, values);
    };
    compare(run(fixture, *op, in), want, tolerance);
    // Accumulated: each gradient's own rounding and that of the sum.
    for (const Values& gradient : want.grad_parameters) {
      in.initial_gradients.push_back(whole_values(static_cast<std::int64_t>(gradient.size()), 77));
    }
    compare(run(fixture, *op, in), reference(desc(), in), tolerance);
  }
}

TEST_P(CudaConv2d, IsNearTheReferenceForRandomNumbers) {
  for (const CudaPrecision precision : precisions()) {
    BackendFixture fixture = cuda_backend({.precision = precision});
    const auto op = fixture.backend().conv2d(without_relu());
    SCOPED_TRACE(op->description());
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
    BackendFixture fixture = cuda_backend({.precision = precision, .deterministic = true});
    const auto op = fixture.backend().conv2d(desc());
    SCOPED_TRACE(op->description());
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    for (const Execution execution : {Execution::direct, Execution::recorded}) {
      const OpOutputs again = run(fixture, *op, in, execution);
      EXPECT_TRUE(same_bits(again.output, first.output));
      for (std::size_t i = 0; i < first.grad_inputs.size(); ++i)
        EXPECT_TRUE(same_bits(again.grad_inputs[i], first.grad_inputs[i]));
      for (std::size_t i = 0; i < first.grad_parameters.size(); ++i)
        EXPECT_TRUE(same_bits(again.grad_parameters[i], first.grad_parameters[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaConv2d, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

using CudaConv2dPlan = CudaOps;

TEST_F(CudaConv2dPlan, KeepsChannelsLast) {
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  const auto op = fixture.backend().conv2d(conv({2, 3, 6, 6}, 4, 3));
  EXPECT_EQ(op->input_layout(0).tag, "nhwc");
  EXPECT_EQ(op->output_layout().tag, "nhwc");
  EXPECT_EQ(op->parameters()[0].layout.tag, "ohwi");
  EXPECT_EQ(op->parameters()[0].shape, (Shape{4, 3, 3, 3}));
  EXPECT_EQ(op->parameters()[1].layout.tag, "plain");
}

TEST_F(CudaConv2dPlan, ReadsOneChannelAsItComes) {
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  const auto op = fixture.backend().conv2d(conv({2, 1, 6, 6}, 4, 3));
  EXPECT_EQ(op->input_layout(0).tag, "plain");
}

TEST_F(CudaConv2dPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().conv2d(conv({2, 3, 4, 4}, 4, 5)), ConfigError);
  EXPECT_THROW(fixture.backend().conv2d(conv({2, 3, 4}, 4, 3)), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
