// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Activations, add and reorder of the oneDNN backend, and layout conversions.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

struct Case {
  const char* name;
  Shape shape;
};

// The last shape is long enough to be split over a team.
std::vector<Case> shapes_of_elementwise() {
  return {{"OneElement", {1, 1, 1, 1}},
          {"OddSizes", {3, 5, 7, 3}},
          {"ChannelsAboveABlock", {2, 33, 3, 5}},
          {"Long", {4, 17, 29, 31}}};
}

std::vector<TensorLayout> layouts(const Shape& shape) {
  return {TensorLayout::plain(shape), image_layout(shape, 8), image_layout(shape, 16)};
}

class Elementwise : public ::testing::TestWithParam<Case> {
 protected:
  // Runs make(backend, layout) of both backends in every layout. All results must be equal.
  template <typename Make>
  static void compare(const Make& make) {
    BackendFixture plain = BackendFixture::reference();
    const auto reference = make(plain.backend(), TensorLayout::plain(GetParam().shape));
    const OpInputs in = random_inputs(*reference, 1);
    const OpOutputs want = run(plain, *reference, in);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      for (const TensorLayout& layout : layouts(GetParam().shape)) {
        SCOPED_TRACE(layout.tag);
        const auto op = make(fixture.backend(), layout);
        EXPECT_EQ(op->plan().output, layout);
        expect_same_bits(run(fixture, *op, in), want);
      }
    }
  }
};

TEST_P(Elementwise, ReluEqualsTheReference) {
  compare([](OpBackend& backend, const TensorLayout& layout) {
    return backend.make(ActivationDesc{layout});
  });
}

// A dozen roundings of values up to 1; and of relu6 none. The inputs reach far into saturation.
TEST_P(Elementwise, ActivationsEqualTheReference) {
  BackendFixture plain = BackendFixture::reference();
  for (const Activation kind : {Activation::relu6, Activation::tanh, Activation::sigmoid}) {
    const ActivationDesc desc{TensorLayout::plain(GetParam().shape), kind};
    const auto reference = plain.backend().make(desc);
    OpInputs in = random_inputs(*reference, 1);
    for (float& v : in.inputs[0]) v *= v > 0.5F ? 120.0F : 10.0F;
    const OpOutputs want = run(plain, *reference, in);
    const double tolerance = kind == Activation::relu6 ? 0 : 4 * kEpsilon;
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      for (const TensorLayout& layout : layouts(GetParam().shape)) {
        SCOPED_TRACE(reference->plan().description + " " + layout.tag);
        const auto op = fixture.backend().make(ActivationDesc{layout, kind});
        const OpOutputs got = run(fixture, *op, in);
        EXPECT_TRUE(all_near(got.output, want.output, tolerance));
        EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], tolerance));
      }
    }
  }
}

TEST_P(Elementwise, AddEqualsTheReference) {
  compare(
      [](OpBackend& backend, const TensorLayout& layout) { return backend.make(AddDesc{layout}); });
}

TEST_P(Elementwise, ReorderMovesValuesAndTakesGradientsBack) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const TensorLayout& from : layouts(GetParam().shape))
    for (const TensorLayout& to : layouts(GetParam().shape)) {
      SCOPED_TRACE(from.tag + " to " + to.tag);
      const auto op = fixture.backend().make(ReorderDesc{.from = from, .to = to});
      const OpInputs in = random_inputs(*op, 5);
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(same_bits(got.output, in.inputs[0]));
      EXPECT_TRUE(same_bits(got.grad_inputs[0], in.grad_output));
    }
}

TEST_P(Elementwise, ConvertsToEveryLayoutAndBack) {
  BackendFixture fixture = BackendFixture::onednn();
  const Values values = random_values(element_count(GetParam().shape), 7);
  for (const TensorLayout& layout : layouts(GetParam().shape))
    EXPECT_TRUE(same_bits(fixture.to_plain(fixture.to_layout(values, layout), layout), values));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Elementwise, ::testing::ValuesIn(shapes_of_elementwise()),
                         [](const auto& test) { return test.param.name; });

TEST(Relu, KeepsNaNAndLetsItsGradientThrough) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(ActivationDesc{TensorLayout::plain({1, 3})});
  const OpInputs in = {.inputs = {{std::numeric_limits<float>::quiet_NaN(), -1, 2}},
                       .grad_output = {3, 4, 5}};
  const OpOutputs got = run(fixture, *op, in);
  EXPECT_TRUE(std::isnan(got.output[0]));
  EXPECT_EQ(got.grad_inputs[0], (Values{3, 0, 5}));
}

TEST(Activations, HaveTheValuesOfPyTorch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Known {
    Activation kind;
    Values outputs, gradients;
  };
  const Values inputs = {-kInfinity, -2, 0, 1e-4F, 0.5F, 7, kInfinity};
  // torch.relu6, torch.tanh and torch.sigmoid of these in double, and their derivatives.
  const Known known[] = {{Activation::relu6, {0, 0, 0, 1e-4F, 0.5F, 6, 6}, {0, 0, 0, 1, 1, 0, 0}},
                         {Activation::tanh,
                          {-1, -0.96402758F, 0, 9.9999997e-5F, 0.46211716F, 0.99999834F, 1},
                          {0, 0.070650825F, 1, 1, 0.78644773F, 3.3261e-6F, 0}},
                         {Activation::sigmoid,
                          {0, 0.11920292F, 0.5F, 0.500025F, 0.62245933F, 0.99908895F, 1},
                          {0, 0.10499359F, 0.25F, 0.25F, 0.23500371F, 9.1022e-4F, 0}}};
  for (BackendFixture& fixture : all_backends())
    for (const Known& each : known) {
      const auto op =
          fixture.backend().make(ActivationDesc{TensorLayout::plain({1, 7}), each.kind});
      SCOPED_TRACE(fixture.backend().name() + " " + op->plan().description);
      OpInputs in = {.inputs = {inputs}, .grad_output = Values(7, 1)};
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(all_near(got.output, each.outputs, 2 * kEpsilon));
      EXPECT_TRUE(all_near(got.grad_inputs[0], each.gradients, 4 * kEpsilon));
      EXPECT_NEAR(got.output[3] / each.outputs[3], 1, 2 * kEpsilon);
      in.inputs[0][0] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(run(fixture, *op, in).output[0]));
    }
  for (float x = -20; x < 20; x += 0x1p-7F) {
    const double tangent = std::tanh(static_cast<double>(x)), e = std::exp(static_cast<double>(-x));
    EXPECT_NEAR(activate(Activation::tanh, x), tangent, 2 * kEpsilon * std::abs(tangent)) << x;
    EXPECT_NEAR(activate(Activation::sigmoid, x) * (1 + e), 1, 4 * kEpsilon) << x;
  }
}

TEST(Convert, KeepsTheOrderOfPyTorchForFlattenedChannels) {
  BackendFixture fixture = BackendFixture::onednn();
  const TensorLayout input = image_layout({2, 17, 2, 3}, 16);
  const auto op = fixture.backend().make(LinearDesc{.input = input, .out_features = 4});
  const TensorLayout layout = op->plan().parameters[0].layout;
  const Values values = random_values(4 * 17 * 6, 3);
  const OpMemory stored = fixture.to_layout(values, layout);
  EXPECT_TRUE(same_bits(fixture.to_plain(stored, layout), values));
  // Element (1, channel 16, pixel 0): the second block of 16 channels, its first channel.
  const auto* memory = reinterpret_cast<const float*>(stored.data());
  EXPECT_EQ(memory[1 * 2 * 6 * 16 + 6 * 16], values[1 * 17 * 6 + 16 * 6]);
}

// oneDNN 3.7's own reorder fails this where the processor tells no cache sizes.
TEST(Convert, PadsWeightsOfOddChannels) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const Shape& shape : {Shape{17, 5, 3, 3}, Shape{16, 5, 3, 3}, Shape{17, 32, 1, 2}}) {
    const std::int64_t out = shape[0], in = shape[1], taps = shape[2] * shape[3];
    const std::int64_t in_blocks = ceil_div(in, std::int64_t{16});
    TensorLayout layout = TensorLayout::plain(shape);
    layout.tag = "ABcd16b16a";
    const auto count = ceil_div(out, std::int64_t{16}) * in_blocks * taps * 256;
    layout.bytes = static_cast<std::size_t>(count) * sizeof(float);
    const Values values = random_values(element_count(shape), 3);
    Values want(static_cast<std::size_t>(count)), stored(want.size(), -7), back(values.size(), -7);
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      const std::int64_t a = i / (in * taps), b = i / taps % in;
      const std::int64_t block = (a / 16 * in_blocks + b / 16) * taps + i % taps;
      want[static_cast<std::size_t>(block * 256 + b % 16 * 16 + a % 16)] =
          values[static_cast<std::size_t>(i)];
    }
    const TensorLayout plain = TensorLayout::plain(shape);
    fixture.backend().convert(plain, values.data(), layout, stored.data());
    EXPECT_TRUE(same_bits(stored, want));
    fixture.backend().convert(layout, stored.data(), plain, back.data());
    EXPECT_TRUE(same_bits(back, values));
  }
}

TEST(Convert, RefusesLayoutsOfDifferentTensors) {
  BackendFixture fixture = BackendFixture::onednn();
  Values a(24), b(24);
  const TensorLayout blocked = image_layout({1, 8, 3, 1}, 8);
  EXPECT_THROW(fixture.backend().convert(blocked, a.data(), TensorLayout::plain({23}), b.data()),
               ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
