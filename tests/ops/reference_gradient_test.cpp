// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference operations' gradients against finite differences of their own outputs.
//
// The operation's gradients are the derivatives of f(t) = sum_k grad_output_k * output_k(t). conv2d
// and linear without ReLU are linear in each argument. So (f(t + h) - f(t - h)) / 2h is exact for
// any h but for the rounding of the outputs, at most eps/2 each: eps * sum |grad_output * output| /
// h / 2.
#include <cmath>
#include <limits>

#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

double objective(BackendFixture& fixture, Op& op, const OpInputs& in) {
  const Values output = run(fixture, op, in).output;
  double sum = 0;
  for (std::size_t k = 0; k < output.size(); ++k)
    sum += static_cast<double>(in.grad_output[k]) * output[k];
  return sum;
}

// Checks the gradient of every element of `argument`, which is a part of `in`.
void check_gradient(BackendFixture& fixture, Op& op, OpInputs& in, Values& argument,
                    const Values& gradient, float h) {
  double magnitude = 0;
  for (const float y : run(fixture, op, in).output) magnitude += std::abs(y) + h;
  const double tolerance = kEpsilon * magnitude / h;
  for (std::size_t k = 0; k < argument.size(); ++k) {
    const float value = argument[k];
    argument[k] = value + h;
    const double above = objective(fixture, op, in);
    const float up = argument[k];
    argument[k] = value - h;
    const double below = objective(fixture, op, in);
    const double slope = (above - below) / (static_cast<double>(up) - argument[k]);
    argument[k] = value;
    EXPECT_NEAR(gradient[k], slope, tolerance) << "element " << k;
  }
}

void check_all_gradients(BackendFixture& fixture, Op& op, OpInputs in, float h) {
  const OpOutputs out = run(fixture, op, in);
  for (std::size_t i = 0; i < in.inputs.size(); ++i)
    check_gradient(fixture, op, in, in.inputs[i], out.grad_inputs[i], h);
  for (std::size_t i = 0; i < in.parameters.size(); ++i)
    check_gradient(fixture, op, in, in.parameters[i], out.grad_parameters[i], h);
}

TEST(ReferenceGradient, OfConv2dEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t pad : {0, 1}) {
      const auto op = fixture.backend().make(Conv2dDesc{.input = TensorLayout::plain({2, 3, 5, 6}),
                                                        .out_channels = 2,
                                                        .window = {3, 2, stride, 1, pad, 1}});
      check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
    }
  const auto uneven = fixture.backend().make(Conv2dDesc{.input = TensorLayout::plain({2, 3, 5, 6}),
                                                        .out_channels = 2,
                                                        .window = {3, 2, 2, 1, 0, 1, 2, -1}});
  EXPECT_EQ(uneven->plan().output.shape, (Shape{2, 2, 3, 6}));
  check_all_gradients(fixture, *uneven, random_inputs(*uneven, 1), 0.5F);
}

TEST(ReferenceGradient, OfGroupedAndDilatedConv2dEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(Conv2dDesc{.input = TensorLayout::plain({2, 4, 7, 6}),
                                                    .out_channels = 6,
                                                    .window = {3, 2, 2, 1, 1, 1},
                                                    .dilation = {2, 3},
                                                    .groups = 2});
  check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
}

TEST(ReferenceGradient, OfAveragePoolsEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  for (const bool count_include_pad : {true, false}) {
    const auto op = fixture.backend().make(AvgPool2dDesc{.input = TensorLayout::plain({2, 2, 5, 6}),
                                                         .window = {3, 2, 2, 1, 1, 1},
                                                         .count_include_pad = count_include_pad});
    check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
  }
  const auto adaptive = fixture.backend().make(
      AdaptiveAvgPool2dDesc{.input = TensorLayout::plain({2, 2, 5, 7}), .out_h = 2, .out_w = 3});
  check_all_gradients(fixture, *adaptive, random_inputs(*adaptive, 1), 0.5F);
  for (const std::int64_t size : {3, 13}) {
    const auto op =
        fixture.backend().make(UpsampleBilinearDesc{TensorLayout::plain({2, 2, 5, 7}), size, size});
    check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
  }
}

TEST(ReferenceGradient, OfConcatEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(
      ConcatDesc{{TensorLayout::plain({2, 3, 2, 2}), TensorLayout::plain({2, 1, 2, 2})}});
  check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
}

// f is smooth: beside the rounding of outputs, the difference is off by h^2 / 6 of a third
// derivative. With a variance near 1/3 and few values these are below 100.
TEST(ReferenceGradient, OfBatchNormIsNearFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(
      BatchNorm2dDesc{.input = TensorLayout::plain({3, 2, 2, 3}), .fuse_add = true});
  OpInputs in = random_inputs(*op, 1);
  const OpOutputs out = run(fixture, *op, in);
  constexpr float kStep = 0x1p-8F;
  constexpr double kTolerance = 100 * kStep * kStep / 6 + 36 * 3 * kEpsilon / kStep;
  const auto check = [&](Values& argument, const Values& gradient) {
    for (std::size_t k = 0; k < argument.size(); ++k) {
      const float value = argument[k];
      argument[k] = value + kStep;
      const double above = objective(fixture, *op, in);
      const float up = argument[k];
      argument[k] = value - kStep;
      const double slope =
          (above - objective(fixture, *op, in)) / (static_cast<double>(up) - argument[k]);
      argument[k] = value;
      EXPECT_NEAR(gradient[k], slope, kTolerance) << "element " << k;
    }
  };
  for (std::size_t i = 0; i < 2; ++i) check(in.inputs[i], out.grad_inputs[i]);
  for (std::size_t i = 0; i < 2; ++i) check(in.parameters[i], out.grad_parameters[i]);
}

TEST(ReferenceGradient, OfLinearEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(
      LinearDesc{.input = TensorLayout::plain({3, 2, 2, 2}), .out_features = 5});
  check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
}

TEST(ReferenceGradient, OfAddEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(AddDesc{TensorLayout::plain({2, 5})});
  check_all_gradients(fixture, *op, random_inputs(*op, 1), 0.5F);
}

// The pool is piecewise linear. No kink is crossed: values are 1 apart, and none is within h of 0.
TEST(ReferenceGradient, OfMaxPoolEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  for (const bool relu : {false, true})
    for (const std::int64_t pad : {0, 1}) {
      const auto op =
          fixture.backend().make(MaxPool2dDesc{.input = TensorLayout::plain({2, 2, 5, 4}),
                                               .window = {3, 2, 2, 1, pad, pad},
                                               .fuse_relu = relu});
      OpInputs in = random_inputs(*op, 1);
      in.inputs[0] = shuffled_values(80, 2);
      for (float& v : in.inputs[0]) v -= 50.5F;
      check_all_gradients(fixture, *op, in, 0.25F);
    }
}

TEST(ReferenceGradient, OfReluEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(ActivationDesc{TensorLayout::plain({2, 10})});
  OpInputs in = random_inputs(*op, 1);
  in.inputs[0] = shuffled_values(20, 2);
  for (float& v : in.inputs[0]) v -= 10.5F;
  check_all_gradients(fixture, *op, in, 0.25F);
}

// Smooth ones by the error of a central difference, h^2 / 6 times a third derivative of at most 2.
TEST(ReferenceGradient, OfActivationsEqualsFiniteDifferences) {
  BackendFixture fixture = BackendFixture::reference();
  for (const Activation kind : {Activation::relu6, Activation::tanh, Activation::sigmoid}) {
    const auto op = fixture.backend().make(ActivationDesc{TensorLayout::plain({2, 10}), kind});
    SCOPED_TRACE(op->plan().description);
    OpInputs in = random_inputs(*op, 1);
    in.inputs[0] = shuffled_values(20, 2);
    for (float& v : in.inputs[0]) v -= 10.5F;  // relu6's kinks are at 0 and 6
    if (kind == Activation::relu6) {
      check_all_gradients(fixture, *op, in, 0.25F);
      continue;
    }
    for (float& v : in.inputs[0]) v /= 4;
    const OpOutputs out = run(fixture, *op, in);
    for (std::size_t k = 0; k < 20; ++k) {
      OpInputs moved = in;
      moved.inputs[0][k] += 0x1p-6F;
      const double above = run(fixture, *op, moved).output[k];
      moved.inputs[0][k] -= 0x1p-5F;
      const double slope = (above - run(fixture, *op, moved).output[k]) / 0x1p-5;
      EXPECT_NEAR(out.grad_inputs[0][k], in.grad_output[k] * slope, 0x1p-12 / 3 + 64 * kEpsilon);
    }
  }
}

// A fused operation is the operation followed by relu: both must give the same bits.
void check_fused_relu(BackendFixture& fixture, Op& fused, Op& bare) {
  const OpInputs in = random_inputs(fused, 3);
  const OpOutputs want_bare = run(fixture, bare, in);
  const auto relu = fixture.backend().make(ActivationDesc{bare.plan().output});
  const OpOutputs want =
      run(fixture, *relu, {.inputs = {want_bare.output}, .grad_output = in.grad_output});
  OpInputs masked = in;
  masked.grad_output = want.grad_inputs[0];
  OpOutputs want_fused = run(fixture, bare, masked);
  want_fused.output = want.output;
  expect_same_bits(run(fixture, fused, in), want_fused);
}

TEST(ReferenceGradient, OfFusedReluIsThatOfReluAfterTheOperation) {
  BackendFixture fixture = BackendFixture::reference();
  Conv2dDesc conv = {
      .input = TensorLayout::plain({2, 3, 5, 5}), .out_channels = 4, .window = square_window(3)};
  const auto bare_conv = fixture.backend().make(conv);
  conv.fuse_relu = true;
  check_fused_relu(fixture, *fixture.backend().make(conv), *bare_conv);
  LinearDesc linear = {.input = TensorLayout::plain({4, 6}), .out_features = 5};
  const auto bare_linear = fixture.backend().make(linear);
  linear.fuse_relu = true;
  check_fused_relu(fixture, *fixture.backend().make(linear), *bare_linear);
}

TEST(ReferenceGradient, AccumulatesOntoWhatIsThere) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op =
      fixture.backend().make(LinearDesc{.input = TensorLayout::plain({4, 6}), .out_features = 5});
  OpInputs in = random_inputs(*op, 3);
  const OpOutputs once = run(fixture, *op, in);
  in.initial_gradients = once.grad_parameters;
  const OpOutputs twice = run(fixture, *op, in);
  for (std::size_t i = 0; i < 2; ++i) {
    Values doubled = once.grad_parameters[i];
    for (float& v : doubled) v *= 2;
    // The sum is rounded once: half an epsilon of values below 8.
    EXPECT_TRUE(all_near(twice.grad_parameters[i], doubled, 8 * kEpsilon));
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
