// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution and the pool after it as one operation, against the reference's two.
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

MaxPool2dDesc pool(std::int64_t kernel, std::int64_t stride, std::int64_t pad = 0) {
  return PoolCase{"", {}, kernel, stride, pad}.desc({}, false);
}
MaxPool2dDesc halved() { return pool(2, 2); }

CudaBackendOptions on_own_kernels(CudaPrecision precision) {
  return {.precision = precision, .convolutions = ConvolutionKernels::own};
}

std::unique_ptr<Op> fused(BackendFixture& fixture, const Conv2dDesc& first,
                          const MaxPool2dDesc& second) {
  const OpDesc chain[] = {first, second};
  FusedOp result = fixture.backend().fuse(chain);
  if (result.op) {
    EXPECT_EQ(result.count, 2U);
  }
  return std::move(result.op);
}

struct FusedCase {
  std::string name;
  Conv2dDesc conv;
};

// The library runs the convolution, and the pool adds the bias.
std::vector<FusedCase> bias_in_pool_cases() {
  std::vector<FusedCase> cases = {
      {"BiasInPoolOfNetworkSecondLayer", conv({2, 32, 14, 14}, 64, 3, 1, 1)},
      {"BiasInPoolWithStride", conv({2, 5, 13, 11}, 16, 3, 2, 1)},
      {"BiasInPoolOfFirstLayer", first_layer(conv({2, 5, 8, 8}, 16, 3, 1, 1))},
      {"BiasInPoolOfOneChannel", conv({2, 1, 6, 6}, 8, 1)}};
  for (const PoolCase& c : pool_cases()) {
    // Windows of 2 x 2 side by side over whole vectors of channels of either type.
    if (!square_window(c.kernel, c.stride, c.pad).is_tiling(2) || c.input[1] % 8 != 0) continue;
    Shape input = c.input;
    input[1] = 5;
    cases.push_back({std::string("BiasInPool") + c.name, conv(input, c.input[1], 1)});
  }
  return cases;
}

class CudaConv2dMaxPool2d : public CudaOps, public ::testing::WithParamInterface<FusedCase> {
 protected:
  static const Conv2dDesc& desc() { return GetParam().conv; }

  static std::unique_ptr<Op> both(BackendFixture& fixture, bool relu) {
    MaxPool2dDesc behind = halved();
    behind.fuse_relu = relu;
    return fused(fixture, desc(), behind);
  }

  // One operation of the reference after the other.
  static OpOutputs reference(const OpInputs& in, bool relu) {
    BackendFixture plain = BackendFixture::reference();
    const auto first = plain.backend().make(desc());
    const auto second =
        plain.backend().make(PoolCase{"", {}, 2, 2, 0}.desc(first->plan().output, relu));
    OpInputs of_first = in;
    of_first.grad_output.assign(static_cast<std::size_t>(element_count(first->plan().output.shape)),
                                0);
    const OpInputs of_second = {.inputs = {run(plain, *first, of_first).output},
                                .grad_output = in.grad_output};
    const OpOutputs pooled = run(plain, *second, of_second);
    of_first.grad_output = pooled.grad_inputs[0];
    OpOutputs result = run(plain, *first, of_first);
    result.output = pooled.output;
    return result;
  }

  template <typename Tolerance>
  static void compare(const OpOutputs& got, const OpOutputs& want, const Tolerance& tolerance) {
    EXPECT_TRUE(all_near(got.output, want.output, tolerance(want.output)));
    ASSERT_EQ(got.grad_inputs.size(), want.grad_inputs.size());
    for (std::size_t i = 0; i < got.grad_inputs.size(); ++i) {
      EXPECT_TRUE(
          all_near(got.grad_inputs[i], want.grad_inputs[i], tolerance(want.grad_inputs[i])));
    }
    ASSERT_EQ(got.grad_parameters.size(), desc().bias ? 2U : 1U);
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i) {
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                           tolerance(want.grad_parameters[i])));
    }
  }
};

TEST_P(CudaConv2dMaxPool2d, EqualsTheReferenceForWholeNumbers) {
  for (const CudaPrecision precision : precisions()) {
    for (const bool relu : {false, true}) {
      BackendFixture fixture = cuda_backend(on_own_kernels(precision));
      const auto op = both(fixture, relu);
      ASSERT_TRUE(op);
      SCOPED_TRACE(op->plan().description);
      OpInputs in = whole_inputs(*op, 1);  // with ties
      in.want_grad_inputs = desc().needs_grad_input;
      const OpOutputs want = reference(in, relu);
      const auto tolerance = [&](const Values& values) {
        return whole_tolerance(precision, values);
      };
      for (const Execution execution : {Execution::direct, Execution::recorded})
        compare(run(fixture, *op, in, execution), want, tolerance);
      for (const Values& gradient : want.grad_parameters) {
        in.initial_gradients.push_back(
            whole_values(static_cast<std::int64_t>(gradient.size()), 77));
      }
      compare(run(fixture, *op, in), reference(in, relu), tolerance);
    }
  }
}

TEST_P(CudaConv2dMaxPool2d, RepeatsItsBits) {
  for (const CudaPrecision precision : precisions()) {
    CudaBackendOptions options = on_own_kernels(precision);
    options.deterministic = true;  // where only the bias is joined, a library convolves
    BackendFixture fixture = cuda_backend(options);
    const auto op = both(fixture, true);
    ASSERT_TRUE(op);
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc().needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    expect_same_bits(run(fixture, *op, in, Execution::recorded), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaConv2dMaxPool2d, ::testing::ValuesIn(bias_in_pool_cases()),
                         [](const auto& test) { return test.param.name; });

using CudaConv2dMaxPool2dPlan = CudaOps;

// More windows than all threads of a large GPU take at once. The gradients are known: as many ones
// as there are windows.
TEST_F(CudaConv2dMaxPool2dPlan, SumsTheBiasGradientOfManyWindows) {
  constexpr std::int64_t kChannels = 8, kExtent = 840;
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::fp32});
  const auto op = fused(fixture, conv({2, 1, kExtent, kExtent}, kChannels, 1), halved());
  ASSERT_TRUE(op);
  constexpr std::int64_t kWindows = 2 * (kExtent / 2) * (kExtent / 2);
  OpInputs in;
  in.inputs = {Values(kWindows * 4, 1.0F)};
  in.parameters = {Values(kChannels, 1.0F), Values(kChannels, 0.0F)};
  in.grad_output = Values(static_cast<std::size_t>(kWindows * kChannels), 1.0F);
  const OpOutputs got = run(fixture, *op, in);
  EXPECT_EQ(got.grad_parameters[0], Values(kChannels, float{kWindows}));
  EXPECT_EQ(got.grad_parameters[1], Values(kChannels, float{kWindows}));
}

TEST_F(CudaConv2dMaxPool2dPlan, AddsTheBiasInThePoolWhereTheLibraryConvolves) {
  BackendFixture fixture = cuda_backend(on_own_kernels(CudaPrecision::fp32));
  const Conv2dDesc fits = conv({2, 8, 8, 8}, 16, 3, 1, 1);
  const auto op = fused(fixture, fits, with_relu(halved()));
  ASSERT_TRUE(op);
  const auto alone = fixture.backend().make(without_bias(fits));
  EXPECT_EQ(op->plan().description,
            alone->plan().description + ", max_pool2d 2x2 +bias +relu (own kernel)");
  EXPECT_EQ(op->plan().output.shape, (Shape{2, 16, 4, 4}));
  ASSERT_EQ(op->plan().parameters.size(), 2U);
  EXPECT_EQ(op->plan().parameters[0].layout, alone->plan().parameters[0].layout);
  EXPECT_EQ(op->plan().parameters[1].fan_in, 8 * 9);
  EXPECT_EQ(op->plan().saved_bytes, 2U * 16 * 4 * 4);
  EXPECT_DOUBLE_EQ(op->plan().forward_flops, alone->plan().forward_flops);
  EXPECT_DOUBLE_EQ(op->plan().backward_flops, alone->plan().backward_flops);
  EXPECT_FALSE(fused(fixture, without_bias(fits), halved())) << "has no bias";
  EXPECT_FALSE(fused(fixture, with_relu(fits), halved())) << "rectifies before it pools";
  EXPECT_FALSE(fused(fixture, fits, pool(2, 1))) << "windows overlap";
  EXPECT_FALSE(fused(fixture, fits, pool(3, 3))) << "3 x 3 windows";
  EXPECT_FALSE(fused(fixture, fits, pool(2, 2, 1))) << "padded windows";
  EXPECT_FALSE(fused(fixture, conv({2, 8, 8, 8}, 6, 3, 1, 1), halved())) << "no whole vectors";
  EXPECT_FALSE(fused(fixture, conv({2, 1, 8, 8}, 16, 3, 1, 1), halved())) << "own kernels may run";
  const TensorLayout plain = TensorLayout::plain({2, 16, 4, 4});
  const OpDesc to_linear[] = {fits, halved(), ReorderDesc{.from = plain, .to = plain}};
  EXPECT_EQ(fixture.backend().fuse(to_linear).count, 2U) << "linear layers read it as it lies";
}

}  // namespace
}  // namespace ddpbench::ops::testing
