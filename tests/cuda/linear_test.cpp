// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// linear of the CUDA backend against the reference loops.

#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

class CudaLinear : public CudaOps, public ::testing::WithParamInterface<LinearCase> {
 protected:
  static const LinearDesc& desc() { return GetParam().desc; }
  // Roundings would decide what a ReLU cuts off.
  static LinearDesc without_relu() {
    LinearDesc result = desc();
    result.fuse_relu = false;
    return result;
  }
  // The operation with every layout of the input that needs no reorder.
  static std::vector<LinearDesc> in_every_layout(const LinearDesc& linear,
                                                 CudaPrecision precision) {
    std::vector<LinearDesc> all = {linear};
    const DataType type = compute_type(precision);
    all[0].input = TensorLayout::plain(linear.input.shape, type);
    if (linear.input.shape.size() != 4) return all;
    all.push_back(linear);
    all[1].input = cuda::nhwc_layout(linear.input.shape, type);
    return all;
  }
  static OpOutputs reference(const LinearDesc& linear, const OpInputs& in) {
    BackendFixture plain = BackendFixture::reference();
    const auto op = plain.backend().make(linear);
    return run(plain, *op, in);
  }

  template <typename Tolerance>
  static void compare(const OpOutputs& got, const OpOutputs& want, const Tolerance& tolerance) {
    const std::int64_t batch = desc().input.shape[0];
    const std::int64_t in = element_count(desc().input.shape) / batch;
    EXPECT_TRUE(all_near(got.output, want.output, tolerance(in, want.output)));
    if (desc().needs_grad_input) {
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                           tolerance(desc().out_features, want.grad_inputs[0])));
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
    for (const LinearDesc& linear : in_every_layout(desc(), precision)) {
      SCOPED_TRACE(linear.input.tag);
      const auto op = fixture.backend().make(linear);
      EXPECT_EQ(op->plan().inputs[0], linear.input);
      OpInputs in = whole_inputs(*op, 1);
      in.want_grad_inputs = desc().needs_grad_input;
      const OpOutputs want = reference(desc(), in);
      const auto tolerance = [&](std::int64_t, const Values& values) {
        return whole_tolerance(precision, values);
      };
      compare(run(fixture, *op, in), want, tolerance);
      for (const Values& gradient : want.grad_parameters) {
        in.initial_gradients.push_back(
            whole_values(static_cast<std::int64_t>(gradient.size()), 77));
      }
      compare(run(fixture, *op, in), reference(desc(), in), tolerance);
    }
  }
}

TEST_P(CudaLinear, IsNearTheReferenceForRandomNumbers) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision});
    for (const LinearDesc& linear : in_every_layout(without_relu(), precision)) {
      SCOPED_TRACE(linear.input.tag);
      const auto op = fixture.backend().make(linear);
      OpInputs in = random_inputs(*op, 1);
      in.want_grad_inputs = desc().needs_grad_input;
      compare(run(fixture, *op, in), reference(without_relu(), in),
              [&](std::int64_t terms, const Values& want) {
                return random_tolerance(precision, terms, want);
              });
    }
  }
}

TEST_P(CudaLinear, RepeatsItsBitsWhenDeterministicAlsoWhenRecorded) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision, .deterministic = true});
    const auto op = fixture.backend().make(desc());
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    for (const Execution execution : {Execution::direct, Execution::recorded}) {
      expect_same_bits(run(fixture, *op, in, execution), first);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaLinear, ::testing::ValuesIn(linear_cases()),
                         [](const auto& test) { return test.param.name; });

using CudaLinearPlan = CudaOps;

// It has PyTorch's shape with any order in memory: checkpoints, initial weights and verification
// depend on the shape.
TEST_F(CudaLinearPlan, KeepsItsWeightInTheOrderOfTheMapsThatItReads) {
  BackendFixture fixture = cuda_backend();
  const Shape maps = {2, 3, 4, 5};
  const auto op = fixture.backend().make(linear(cuda::nhwc_layout(maps, DataType::fp32), 7));
  const ParameterSpec weight = op->plan().parameters[0];
  EXPECT_EQ(weight.shape, (Shape{7, 60}));
  EXPECT_EQ(weight.layout, cuda::ohwi_layout({7, 3, 4, 5}));
  const auto plain = fixture.backend().make(linear(maps, 7))->plan().parameters[0];
  EXPECT_EQ(plain.layout, TensorLayout::plain({7, 60}));
}

TEST_F(CudaLinearPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(
      fixture.backend().make(LinearDesc{.input = TensorLayout::plain({4, 3}), .out_features = 0}),
      ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
