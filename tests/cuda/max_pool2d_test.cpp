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
  static MaxPool2dDesc desc(const TensorLayout& input, bool relu, bool plain) {
    return GetParam().desc(input, relu, plain);
  }
  static std::vector<TensorLayout> layouts() {
    const Shape& shape = GetParam().input;
    return {TensorLayout::plain(shape), TensorLayout::plain(shape, DataType::bf16),
            cuda::nhwc_layout(shape, DataType::fp32), cuda::nhwc_layout(shape, DataType::bf16)};
  }
  // Windows of 2 x 2 side by side, channels last, in vectors of 16 bytes.
  static bool may_have_bias(const TensorLayout& layout) {
    const PoolCase& c = GetParam();
    const std::int64_t vector = layout.type == DataType::bf16 ? 8 : 4;
    return c.kernel == 2 && c.stride == 2 && c.pad == 0 && cuda::is_nhwc(layout) &&
           c.input[1] % vector == 0;
  }
  static void expect_equal(const OpOutputs& got, const OpOutputs& want) {
    EXPECT_TRUE(all_near(got.output, want.output, 0));
    EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 0));
    EXPECT_TRUE(all_near(got.grad_parameters[0], want.grad_parameters[0], 0));
  }
};

TEST_P(CudaMaxPool2d, EqualsTheReferenceInEveryLayoutAndType) {
  BackendFixture fixture = cuda_backend();
  for (const bool relu : {false, true}) {
    BackendFixture plain = BackendFixture::reference();
    const auto reference =
        plain.backend().max_pool2d(desc(TensorLayout::plain(GetParam().input), relu, false));
    const OpInputs in = whole_inputs(*reference, 1);  // with ties
    const OpOutputs want = run(plain, *reference, in);
    for (const TensorLayout& layout : layouts())
      for (const bool plain_output : {false, true})
        for (const Execution execution : {Execution::direct, Execution::recorded}) {
          SCOPED_TRACE(layout.tag + (plain_output ? " to plain" : ""));
          const auto op = fixture.backend().max_pool2d(desc(layout, relu, plain_output));
          EXPECT_EQ(op->input_layout(0), layout);
          EXPECT_EQ(op->output_layout().tag, layout.tag);  // linear layers read both
          EXPECT_EQ(op->output_layout().type, layout.type);
          const OpOutputs got = run(fixture, *op, in, execution);
          EXPECT_TRUE(all_near(got.output, want.output, 0));
          EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 0));
        }
  }
}

TEST_P(CudaMaxPool2d, LetsNaNWinAndPassItsGradient) {
  BackendFixture fixture = cuda_backend();
  for (const TensorLayout& layout : layouts()) {
    const auto op = fixture.backend().max_pool2d(desc(layout, true, false));
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

// The gradient of the bias also where it is added to one that is there already, and where it alone
// is wanted.
TEST_P(CudaMaxPool2d, AddsABiasAsTheReferenceDoesOrRefusesIt) {
  BackendFixture fixture = cuda_backend();
  for (const bool relu : {false, true}) {
    BackendFixture plain = BackendFixture::reference();
    MaxPool2dDesc biased = desc(TensorLayout::plain(GetParam().input), relu, false);
    biased.bias = true;
    const auto reference = plain.backend().max_pool2d(biased);
    for (const TensorLayout& layout : layouts()) {
      SCOPED_TRACE(layout.tag);
      biased.input = layout;
      if (!may_have_bias(layout)) {
        EXPECT_THROW(fixture.backend().max_pool2d(biased), DeviceError);
        continue;
      }
      OpInputs in = whole_inputs(*reference, 1);
      const OpOutputs want = run(plain, *reference, in);
      const auto op = fixture.backend().max_pool2d(biased);
      for (const Execution execution : {Execution::direct, Execution::recorded}) {
        expect_equal(run(fixture, *op, in, execution), want);
      }
      in.initial_gradients = {whole_values(GetParam().input[1], 7)};
      expect_equal(run(fixture, *op, in), run(plain, *reference, in));
      in.want_grad_inputs = false;
      EXPECT_EQ(run(fixture, *op, in).grad_parameters, run(plain, *reference, in).grad_parameters);
    }
  }
}

// More windows than all threads of a large GPU take at once. The gradient is counted by hand: as
// many ones as there are windows.
TEST_F(CudaOps, SumsTheBiasGradientOfManyWindows) {
  constexpr std::int64_t kChannels = 8, kExtent = 840;
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  MaxPool2dDesc desc = PoolCase{"", {}, 2, 2, 0}.desc(
      cuda::nhwc_layout({2, kChannels, kExtent, kExtent}, DataType::fp32), false, false);
  desc.bias = true;
  const auto op = fixture.backend().max_pool2d(desc);
  constexpr std::int64_t kWindows = 2 * (kExtent / 2) * (kExtent / 2);
  OpInputs in;
  in.inputs = {Values(static_cast<std::size_t>(kWindows * kChannels * 4), 1.0F)};
  in.parameters = {Values(kChannels, 0.0F)};
  in.grad_output = Values(static_cast<std::size_t>(kWindows * kChannels), 1.0F);
  EXPECT_EQ(run(fixture, *op, in).grad_parameters[0], Values(kChannels, float{kWindows}));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaMaxPool2d, ::testing::ValuesIn(pool_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ddpbench::ops::testing
