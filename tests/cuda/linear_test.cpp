// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear of the CUDA backend against the reference loops.
#include "kernels/runtime/error.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

struct Case {
  const char* name;
  Shape input;
  std::int64_t out;
  bool bias, relu, needs_grad_input;
};

std::vector<Case> cases() {
  return {
      {"OneSample", {1, 8}, 8, true, false, true},
      {"OneByOne", {1, 1}, 1, true, true, true},
      {"NetworkFirst", {6, 64, 7, 7}, 128, true, true, true},
      {"NetworkLast", {6, 128}, 10, true, false, true},
      {"OddSizes", {5, 7}, 3, true, true, true},
      {"WithoutBias", {4, 9}, 6, false, false, true},
      {"ReluWithoutBias", {4, 9}, 6, false, true, true},
      {"FirstLayer", {3, 1, 6, 6}, 16, true, true, false},
      {"MoreRowsThanAChunk", {1200, 4}, 37, true, true, true},
  };
}

class CudaLinear : public CudaOps, public ::testing::WithParamInterface<Case> {
 protected:
  static LinearDesc desc() {
    const Case& c = GetParam();
    return {.input = TensorLayout::plain(c.input),
            .out_features = c.out,
            .bias = c.bias,
            .fuse_relu = c.relu,
            .needs_grad_input = c.needs_grad_input};
  }
  // Roundings decide what a ReLU cuts off.
  static LinearDesc without_relu() {
    LinearDesc result = desc();
    result.fuse_relu = false;
    return result;
  }
  static OpOutputs reference(const LinearDesc& linear, const OpInputs& in) {
    BackendFixture plain = BackendFixture::reference();
    const auto op = plain.backend().linear(linear);
    return run(plain, *op, in);
  }

  template <typename Tolerance>
  static void compare(const OpOutputs& got, const OpOutputs& want, const Tolerance& tolerance) {
    const std::int64_t batch = GetParam().input[0];
    const std::int64_t in = element_count(GetParam().input) / batch;
    EXPECT_TRUE(all_near(got.output, want.output, tolerance(in, want.output)));
    if (GetParam().needs_grad_input) {
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                           tolerance(GetParam().out, want.grad_inputs[0])));
    }
    ASSERT_EQ(got.grad_parameters.size(), want.grad_parameters.size());
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i) {
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                           tolerance(batch, want.grad_parameters[i])));
    }
  }
};

TEST_P(CudaLinear, EqualsTheReferenceForWholeNumbers) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision});
    const auto op = fixture.backend().linear(desc());
    OpInputs in = whole_inputs(*op, 1);
    in.want_grad_inputs = GetParam().needs_grad_input;
    const OpOutputs want = reference(desc(), in);
    const auto tolerance = [&](std::int64_t, const Values& values) {
      return whole_tolerance(precision, values);
    };
    compare(run(fixture, *op, in), want, tolerance);
    for (const Values& gradient : want.grad_parameters) {
      in.initial_gradients.push_back(whole_values(static_cast<std::int64_t>(gradient.size()), 77));
    }
    compare(run(fixture, *op, in), reference(desc(), in), tolerance);
  }
}

TEST_P(CudaLinear, IsNearTheReferenceForRandomNumbers) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision});
    const auto op = fixture.backend().linear(without_relu());
    OpInputs in = random_inputs(*op, 1);
    in.want_grad_inputs = GetParam().needs_grad_input;
    compare(run(fixture, *op, in), reference(without_relu(), in),
            [&](std::int64_t terms, const Values& want) {
              return random_tolerance(precision, terms, want);
            });
  }
}

TEST_P(CudaLinear, RepeatsItsBitsWhenDeterministicAlsoWhenRecorded) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision, .deterministic = true});
    const auto op = fixture.backend().linear(desc());
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = GetParam().needs_grad_input;
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

INSTANTIATE_TEST_SUITE_P(Shapes, CudaLinear, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

using CudaLinearPlan = CudaOps;

TEST_F(CudaLinearPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().linear({.input = TensorLayout::plain({4, 3}), .out_features = 0}),
               ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
