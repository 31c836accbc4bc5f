// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d, adaptive_avg_pool2d and upsample_bilinear of the CUDA backend against the reference
// loops.
#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

template <typename Case>
void expect_the_references_averages(const Case& c) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(c.desc(TensorLayout::plain(c.input)));
  const OpInputs in = whole_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  BackendFixture fixture = cuda_backend();
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    // Sums of whole numbers are exact; the factor, the product and a bf16 result are rounded, and
    // in double what the reference adds up.
    constexpr double kDouble = 1e-14;
    const auto tolerance = [&](const Values& values) {
      return kDouble +
             whole_tolerance(type == DataType::bf16 ? CudaPrecision::bf16 : CudaPrecision::fp32,
                             values);
    };
    for (const TensorLayout& layout :
         {TensorLayout::plain(c.input, type), cuda::nhwc_layout(c.input, type)})
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        SCOPED_TRACE(layout.tag);
        const auto op = fixture.backend().make(c.desc(layout));
        EXPECT_EQ(op->plan().inputs[0], layout);
        EXPECT_EQ(op->plan().output.tag, layout.tag);
        EXPECT_EQ(op->plan().output.type, layout.type);
        const OpOutputs got = run(fixture, *op, in, execution);
        EXPECT_TRUE(all_near(got.output, want.output, tolerance(want.output)));
        EXPECT_TRUE(
            all_near(got.grad_inputs[0], want.grad_inputs[0], tolerance(want.grad_inputs[0])));
        expect_same_bits(run(fixture, *op, in, execution), got);
      }
  }
}

class CudaAvgPool2d : public CudaOps, public ::testing::WithParamInterface<AverageCase> {};
TEST_P(CudaAvgPool2d, EqualsTheReferenceInEveryLayoutAndType) {
  expect_the_references_averages(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaAvgPool2d, ::testing::ValuesIn(average_cases()),
                         [](const auto& test) { return test.param.name; });

class CudaAdaptiveAvgPool2d : public CudaOps, public ::testing::WithParamInterface<AdaptiveCase> {};
TEST_P(CudaAdaptiveAvgPool2d, EqualsTheReferenceInEveryLayoutAndType) {
  expect_the_references_averages(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaAdaptiveAvgPool2d, ::testing::ValuesIn(adaptive_cases()),
                         [](const auto& test) { return test.param.name; });

class CudaUpsampleBilinear : public CudaOps, public ::testing::WithParamInterface<UpsampleCase> {};
TEST_P(CudaUpsampleBilinear, EqualsTheReferenceInEveryLayoutAndType) {
  expect_the_references_averages(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaUpsampleBilinear, ::testing::ValuesIn(upsample_cases()),
                         [](const auto& test) { return test.param.name; });

using CudaAveragePool = CudaOps;

TEST_F(CudaAveragePool, RefusesShapesWithoutAResult) {
  BackendFixture fixture = cuda_backend();
  const TensorLayout input = TensorLayout::plain({2, 3, 4, 4});
  EXPECT_THROW(fixture.backend().make(AvgPool2dDesc{input, square_window(5)}), ConfigError);
  EXPECT_THROW(fixture.backend().make(AvgPool2dDesc{input, square_window(2, 2, 2)}), ConfigError);
  EXPECT_THROW(fixture.backend().make(AdaptiveAvgPool2dDesc{input, 0, 1}), ConfigError);
  EXPECT_THROW(fixture.backend().make(UpsampleBilinearDesc{input, 0, 1}), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
