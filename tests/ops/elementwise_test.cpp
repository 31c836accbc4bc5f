// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// relu, add and reorder of the oneDNN backend, and layout conversions.
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
    return backend.make(ReluDesc{layout});
  });
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
  const auto op = fixture.backend().make(ReluDesc{TensorLayout::plain({1, 3})});
  const OpInputs in = {.inputs = {{std::numeric_limits<float>::quiet_NaN(), -1, 2}},
                       .grad_output = {3, 4, 5}};
  const OpOutputs got = run(fixture, *op, in);
  EXPECT_TRUE(std::isnan(got.output[0]));
  EXPECT_EQ(got.grad_inputs[0], (Values{3, 0, 5}));
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

TEST(Convert, RefusesLayoutsOfDifferentTensors) {
  BackendFixture fixture = BackendFixture::onednn();
  Values a(24), b(24);
  const TensorLayout blocked = image_layout({1, 8, 3, 1}, 8);
  EXPECT_THROW(fixture.backend().convert(blocked, a.data(), TensorLayout::plain({23}), b.data()),
               ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
