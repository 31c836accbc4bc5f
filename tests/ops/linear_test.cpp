// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear of the oneDNN backend against the reference loops, from plain and blocked inputs.
#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

TensorLayout blocked(const Shape& shape, std::int64_t block) { return image_layout(shape, block); }

std::vector<LinearCase> shapes_of_linear() {
  std::vector<LinearCase> cases = linear_cases();
  cases.push_back({"SixteenChannelBlocks", with_relu(linear(blocked({3, 64, 7, 7}, 16), 128))});
  cases.push_back({"EightChannelBlocks", linear(blocked({3, 24, 3, 5}, 8), 10)});
  cases.push_back({"PaddedChannelBlocks", with_relu(linear(blocked({3, 17, 3, 2}, 16), 5))});
  cases.push_back({"ChannelsLast", linear(blocked({2, 6, 3, 2}, 6), 7)});
  return cases;
}

class Linear : public ::testing::TestWithParam<LinearCase> {};

TEST_P(Linear, ComputesWhatTheReferenceDoes) {
  const LinearDesc& desc = GetParam().desc;
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = random_inputs(*reference, 1);
  in.want_grad_inputs = desc.needs_grad_input;
  const OpOutputs want = run(plain, *reference, in);
  const std::int64_t batch = desc.input.shape[0];
  const std::int64_t features = element_count(desc.input.shape) / batch;
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->plan().inputs[0], desc.input);
    EXPECT_TRUE(op->plan().output.is_plain());
    const OpOutputs got = run(fixture, *op, in);
    EXPECT_TRUE(all_near(got.output, want.output, sum_tolerance(features)));
    if (desc.needs_grad_input) {
      EXPECT_TRUE(
          all_near(got.grad_inputs[0], want.grad_inputs[0], sum_tolerance(desc.out_features)));
    }
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i], sum_tolerance(batch)));
  }
}

TEST_P(Linear, AddsToTheGradientsThatAreThere) {
  const LinearDesc& desc = GetParam().desc;
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(desc);
  OpInputs in = random_inputs(*op, 2);
  in.want_grad_inputs = desc.needs_grad_input;
  const OpOutputs fresh = run(fixture, *op, in);
  for (const ParameterSpec& spec : op->plan().parameters)
    in.initial_gradients.push_back(random_values(element_count(spec.shape), 9));
  const OpOutputs added = run(fixture, *op, in);
  for (std::size_t i = 0; i < fresh.grad_parameters.size(); ++i) {
    Values want = fresh.grad_parameters[i];
    for (std::size_t k = 0; k < want.size(); ++k) want[k] += in.initial_gradients[i][k];
    EXPECT_TRUE(all_near(added.grad_parameters[i], want, sum_tolerance(desc.input.shape[0] + 1)));
  }
}

TEST_P(Linear, GivesEqualBitsInEqualRuns) {
  const LinearDesc& desc = GetParam().desc;
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    const auto op = fixture.backend().make(desc);
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc.needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    expect_same_bits(run(fixture, *op, in), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Linear, ::testing::ValuesIn(shapes_of_linear()),
                         [](const auto& test) { return test.param.name; });

TEST(LinearPlan, KeepsTheShapeOfPyTorchWhateverTheLayout) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(linear(blocked({2, 64, 7, 7}, 16), 128));
  const auto specs = op->plan().parameters;
  EXPECT_EQ(specs[0].shape, (Shape{128, 3136}));
  EXPECT_EQ(specs[0].layout.shape, (Shape{128, 3136}));
  EXPECT_FALSE(specs[0].layout.is_plain());
  EXPECT_EQ(specs[0].fan_in, 3136);
  EXPECT_EQ(specs[1].shape, (Shape{128}));
}

TEST(LinearPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = BackendFixture::onednn();
  EXPECT_THROW(fixture.backend().make(linear(Shape{4}, 5)), ConfigError);
  EXPECT_THROW(fixture.backend().make(linear(Shape{4, 0}, 5)), ConfigError);
  EXPECT_THROW(fixture.backend().make(linear(Shape{4, 3}, 0)), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
