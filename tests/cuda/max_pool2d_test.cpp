// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d of the CUDA backend against the reference loops; everything is exact.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

class CudaMaxPool2d : public CudaOps, public ::testing::WithParamInterface<PoolCase> {
 protected:
  static MaxPool2dDesc desc(const TensorLayout& input, bool relu) {
    return GetParam().desc(input, relu);
  }
  static std::vector<TensorLayout> layouts() {
    const Shape& shape = GetParam().input;
    return {TensorLayout::plain(shape), TensorLayout::plain(shape, DataType::bf16),
            cuda::nhwc_layout(shape, DataType::fp32), cuda::nhwc_layout(shape, DataType::bf16)};
  }
};

TEST_P(CudaMaxPool2d, EqualsTheReferenceInEveryLayoutAndType) {
  BackendFixture fixture = cuda_backend();
  for (const bool relu : {false, true}) {
    BackendFixture plain = BackendFixture::reference();
    const auto reference = plain.backend().make(desc(TensorLayout::plain(GetParam().input), relu));
    const OpInputs in = whole_inputs(*reference, 1);  // with ties
    const OpOutputs want = run(plain, *reference, in);
    for (const TensorLayout& layout : layouts())
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        SCOPED_TRACE(layout.tag);
        const auto op = fixture.backend().make(desc(layout, relu));
        EXPECT_EQ(op->plan().inputs[0], layout);
        EXPECT_EQ(op->plan().output.tag, layout.tag);  // linear layers read both
        EXPECT_EQ(op->plan().output.type, layout.type);
        const OpOutputs got = run(fixture, *op, in, execution);
        EXPECT_TRUE(all_near(got.output, want.output, 0));
        EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 0));
      }
  }
}

TEST_P(CudaMaxPool2d, LetsNaNWinAndPassItsGradient) {
  BackendFixture fixture = cuda_backend();
  for (const TensorLayout& layout : layouts()) {
    const auto op = fixture.backend().make(desc(layout, true));
    OpInputs in = random_inputs(*op, 1);
    std::fill(in.inputs[0].begin(), in.inputs[0].end(), -1.0F);
    in.inputs[0][0] = std::numeric_limits<float>::quiet_NaN();
    std::fill(in.grad_output.begin(), in.grad_output.end(), 1.0F);
    const OpOutputs got = run(fixture, *op, in);
    EXPECT_TRUE(std::isnan(got.output[0]));
    EXPECT_GT(got.grad_inputs[0][0], 0);
    EXPECT_EQ(std::count_if(got.grad_inputs[0].begin() + 1, got.grad_inputs[0].end(),
                            [](float v) { return v != 0; }),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaMaxPool2d, ::testing::ValuesIn(pool_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ddpbench::ops::testing
