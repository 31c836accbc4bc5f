// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of CPU devices in bf16 against the reference in fp32 (bf16_harness.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/bfloat16.h"
#include "tests/ops/bf16_harness.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

// ---- convolutions ----

class Bf16Conv2d : public OnCases<ConvCase> {};

TEST_P(Bf16Conv2d, ComputesWhatTheReferenceDoes) {
  const Conv2dDesc& desc = GetParam().desc;
  const auto op = compare_bf16(desc, conv_sums(desc), [&](BackendFixture& fixture, int) {
    return fixture.backend().make(desc);
  });
  // The library has all plain ones in bf16; of others, those that it has only a plain loop for
  // compute in fp32.
  if (desc.groups == 1) {
    EXPECT_EQ(op->plan().inputs[0].type, DataType::bf16) << op->plan().description;
    EXPECT_EQ(op->plan().output.type, DataType::bf16) << op->plan().description;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16Conv2d, ::testing::ValuesIn(conv_cases()),
                         [](const auto& test) { return test.param.name; });

// The own Winograd over maps of bf16, which computes in fp32, whether the rule would choose it or
// not. Its transforms enlarge the roundings of sums by an order of magnitude (conv2d_test.cpp).
class Bf16Winograd : public OnCases<ConvCase> {};

TEST_P(Bf16Winograd, ComputesWhatTheReferenceDoes) {
  const Conv2dDesc& desc = GetParam().desc;
  if (cpu::simd_level() != cpu::SimdLevel::avx512) GTEST_SKIP() << "needs AVX-512";
  const auto op =
      compare_bf16(desc, conv_sums(desc, 10), make_conv2d(desc, onednn::ConvAlgorithm::winograd));
  EXPECT_EQ(op->plan().inputs[0].type, DataType::bf16);
  EXPECT_EQ(op->plan().output.type, DataType::bf16);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Bf16Winograd,
    ::testing::Values(ConvCase{"OneTile", conv({1, 16, 4, 4}, 16, 3, 1, 1)},
                      ConvCase{"ChannelsBelowABlock", with_relu(conv({2, 7, 6, 11}, 9, 3, 1, 1))},
                      ConvCase{"ChannelsAboveABlock", conv({2, 17, 8, 5}, 40, 3, 1, 1)},
                      ConvCase{"NetworkSecondLayer", with_relu(conv({4, 32, 14, 14}, 64, 3, 1, 1))},
                      ConvCase{"WithoutPadding", conv({2, 32, 10, 9}, 32, 3)},
                      ConvCase{"PaddedByTwo", with_relu(conv({2, 16, 6, 7}, 32, 3, 1, 2))},
                      ConvCase{"WithoutBias",
                               without_bias(with_relu(conv({2, 20, 9, 9}, 24, 3, 1, 1)))},
                      ConvCase{"FirstLayer", first_layer(conv({2, 3, 12, 12}, 16, 3, 1, 1))},
                      ConvCase{"ManyGroupsOfTiles", with_relu(conv({9, 16, 25, 18}, 16, 3, 1, 1))}),
    [](const auto& test) { return test.param.name; });

class Bf16Conv2dRule : public OnShapes {};

TEST_F(Bf16Conv2dRule, TakesWinogradForManyOutputsOnlyAndNeverBesideAmx) {
  if (cpu::simd_level() != cpu::SimdLevel::avx512) GTEST_SKIP() << "needs AVX-512";
  BackendFixture fixture = bf16_backend();
  const auto description = [&](std::int64_t samples) {
    return fixture.backend().make(conv({samples, 32, 14, 14}, 64, 3, 1, 1))->plan().description;
  };
  EXPECT_EQ(description(32).find("own wino") == std::string::npos, cpu_bf16_uses_amx())
      << description(32);
  EXPECT_EQ(description(1).find("wino"), std::string::npos) << description(1);
}

// ---- linear layers ----

class Bf16Linear : public OnCases<LinearCase> {};

TEST_P(Bf16Linear, ComputesWhatTheReferenceDoes) {
  const LinearDesc& desc = GetParam().desc;
  const std::int64_t batch = desc.input.shape[0];
  const auto op =
      compare_bf16(desc,
                   {.output = sum_tolerance(element_count(desc.input.shape) / batch + 1),
                    .grad_input = sum_tolerance(desc.out_features),
                    .grad_parameter = sum_tolerance(batch + 1)},
                   [&](BackendFixture& fixture, int) { return fixture.backend().make(desc); });
  EXPECT_EQ(op->plan().inputs[0].type, DataType::bf16);
  EXPECT_EQ(op->plan().output, TensorLayout::plain({batch, desc.out_features}, DataType::bf16));
}

std::vector<LinearCase> linear_cases_of_all_layouts() {
  std::vector<LinearCase> cases = linear_cases();
  for (const DataType type : {DataType::fp32, DataType::bf16}) {
    const auto blocked = [&](const Shape& shape, std::int64_t block) {
      return image_layout(shape, block, type);
    };
    const bool bf16 = type == DataType::bf16;
    cases.push_back({bf16 ? "SixteenChannelBlocks" : "BlocksOfFp32",
                     with_relu(linear(blocked({3, 64, 7, 7}, 16), 128))});
    cases.push_back({bf16 ? "PaddedChannelBlocks" : "PaddedBlocksOfFp32",
                     with_relu(linear(blocked({3, 17, 3, 2}, 16), 5))});
    cases.push_back(
        {bf16 ? "ChannelsLast" : "ChannelsLastOfFp32", linear(blocked({2, 6, 3, 2}, 6), 7)});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, Bf16Linear, ::testing::ValuesIn(linear_cases_of_all_layouts()),
                         [](const auto& test) { return test.param.name; });

// ---- own kernels, over every layout ----

std::vector<TensorLayout> bf16_layouts(const Shape& shape) {
  std::vector<TensorLayout> layouts = {TensorLayout::plain(shape, DataType::bf16)};
  for (const std::int64_t block : {std::int64_t{8}, std::int64_t{16}, shape[1]})
    layouts.push_back(image_layout(shape, block, DataType::bf16));
  return layouts;
}

// The smallest of the channels' variances.
double smallest_variance(const Values& x, const Shape& shape) {
  const std::int64_t pixels = shape[2] * shape[3];
  double smallest = std::numeric_limits<double>::infinity();
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < shape[0]; ++n)
      for (std::int64_t p = 0; p < pixels; ++p) {
        const double value = x[static_cast<std::size_t>((n * shape[1] + c) * pixels + p)];
        sum += value;
        squares += value * value;
      }
    const auto count = static_cast<double>(shape[0] * pixels);
    smallest = std::min(smallest, squares / count - sum / count * sum / count);
  }
  return smallest;
}

class Bf16BatchNorm2d : public OnCases<NormCase> {};

// The bounds of the fp32 test (batch_norm2d_test.cpp), and one rounding of each map.
TEST_P(Bf16BatchNorm2d, ComputesWhatTheReferenceDoes) {
  BatchNorm2dDesc desc = GetParam().desc;
  const Shape& shape = desc.input.shape;
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = rounded_inputs(*reference, 1);
  for (const bool accumulate : {false, true}) {
    if (accumulate) {
      for (const ParameterSpec& spec : reference->plan().parameters)
        in.initial_gradients.push_back(random_values(element_count(spec.shape), 77));
      // The gradient comes in two parts as well.
      in.more_grad_output = random_values(element_count(shape), 78);
      round_values(in.more_grad_output);
    }
    const OpOutputs want = run(plain, *reference, with_added_gradient(in));
    const double scale =
        (accumulate ? 2 : 1) / std::sqrt(desc.eps + smallest_variance(in.inputs[0], shape));
    const double sums = 32 * kEpsilon * scale * (2 + 2 * scale);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = bf16_backend(threads);
      for (const TensorLayout& layout : bf16_layouts(shape)) {
        SCOPED_TRACE(layout.tag);
        desc.input = layout;
        const auto op = fixture.backend().make(desc);
        EXPECT_EQ(op->plan().inputs[0], layout);
        EXPECT_EQ(op->plan().output, layout);
        const OpOutputs got = run(fixture, *op, in);
        EXPECT_TRUE(near_rounded(got.output, want.output, sums, layout));
        // Where an addend's gradient is kept, it is exact: dy or 0. A sum of two below 1 is rounded
        // before the input's is made of it.
        const double of_sum = accumulate ? scale * kHalfUnit : 0;
        for (std::size_t i = 0; i < got.grad_inputs.size(); ++i)
          EXPECT_TRUE(near_rounded(got.grad_inputs[i], want.grad_inputs[i], sums + of_sum, layout))
              << i;
        for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
          EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                               sum_tolerance(shape[0] * shape[2] * shape[3]) * (1 + 2 * scale)));
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(all_near(got.state[i], want.state[i], 8 * kEpsilon)) << "state " << i;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, Bf16BatchNorm2d, ::testing::ValuesIn(norm_cases()),
                         [](const auto& test) { return test.param.name; });

class Bf16MaxPool2d : public OnCases<PoolCase> {};

// What is chosen is exact. A gradient that several windows give is rounded after each.
TEST_P(Bf16MaxPool2d, ComputesWhatTheReferenceDoes) {
  const PoolCase& c = GetParam();
  const double windows =
      static_cast<double>(ceil_div(c.kernel, c.stride) * ceil_div(c.kernel, c.stride));
  for (const bool relu : {false, true}) {
    BackendFixture plain = BackendFixture::reference();
    const auto reference = plain.backend().make(c.desc(TensorLayout::plain(c.input), relu));
    const OpInputs in = rounded_inputs(*reference, 1);
    const OpOutputs want = run(plain, *reference, in);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = bf16_backend(threads);
      for (const TensorLayout& layout : bf16_layouts(c.input)) {
        for (const bool to_plain : {false, true}) {
          SCOPED_TRACE(layout.tag + (to_plain ? " to plain" : ""));
          MaxPool2dDesc pool = c.desc(layout, relu);
          pool.to_plain = to_plain;
          const auto op = fixture.backend().make(pool);
          EXPECT_EQ(op->plan().inputs[0], layout);
          EXPECT_EQ(op->plan().output.type, DataType::bf16);
          const OpOutputs got = run(fixture, *op, in);
          EXPECT_TRUE(all_near(got.output, want.output, 0));
          EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                               windows == 1 ? 0 : windows * windows * kHalfUnit));
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, Bf16MaxPool2d, ::testing::ValuesIn(pool_cases()),
                         [](const auto& test) { return test.param.name; });

class Bf16Ops : public OnShapes {};

// Blocks of 16 channels, or plain where the tensor is no image.
TensorLayout blocked_or_plain(const Shape& shape) {
  if (shape.size() != 4) return TensorLayout::plain(shape, DataType::bf16);
  return image_layout(shape, 16, DataType::bf16);
}

TEST_F(Bf16Ops, RectifyAndAddInEveryLayout) {
  const Shape shape = {3, 17, 20, 21};  // long enough for a team
  BackendFixture plain = BackendFixture::reference();
  for (const int threads : team_sizes()) {
    BackendFixture fixture = bf16_backend(threads);
    for (const TensorLayout& layout : bf16_layouts(shape)) {
      SCOPED_TRACE(layout.tag);
      const auto check = [&](const OpDesc& desc, const OpDesc& reference_desc, double units) {
        const auto reference = plain.backend().make(reference_desc);
        const auto op = fixture.backend().make(desc);
        const OpInputs in = rounded_inputs(*reference, 1);
        const OpOutputs want = run(plain, *reference, in), got = run(fixture, *op, in);
        EXPECT_TRUE(near_rounded(got.output, want.output, 0, layout, units));
        for (std::size_t i = 0; i < want.grad_inputs.size(); ++i)
          EXPECT_TRUE(all_near(got.grad_inputs[i], want.grad_inputs[i], 0));
      };
      const TensorLayout as_plain = TensorLayout::plain(shape);
      check(ActivationDesc{layout}, ActivationDesc{as_plain}, 0);
      check(ActivationDesc{layout, Activation::relu6}, ActivationDesc{as_plain, Activation::relu6},
            0);
      check(AddDesc{layout}, AddDesc{TensorLayout::plain(shape)}, 1);
    }
  }
}

// The gradient is that at the rounded output.
TEST_F(Bf16Ops, SquashInEveryLayout) {
  BackendFixture plain = BackendFixture::reference(), fixture = bf16_backend();
  const Shape shape = {3, 17, 4, 5};
  for (const Activation kind : {Activation::tanh, Activation::sigmoid})
    for (const TensorLayout& layout : bf16_layouts(shape)) {
      const auto reference = plain.backend().make(ActivationDesc{TensorLayout::plain(shape), kind});
      const auto op = fixture.backend().make(ActivationDesc{layout, kind});
      const OpInputs in = rounded_inputs(*reference, 1);
      const OpOutputs want = run(plain, *reference, in), got = run(fixture, *op, in);
      EXPECT_TRUE(near_rounded(got.output, want.output, 4 * kEpsilon, layout, 1));
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 4 * 0x1p-8));
    }
}

TEST_F(Bf16Ops, RoundsToTheNearestAndKeepsNan) {
  // A unit in bf16's last place is 2^-7 for values in [1, 2). Halves go to the even neighbour.
  const float unit = 0x1p-7F, nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t copies : {1, 16}) {  // the vectors' rest, and whole vectors
    BackendFixture fixture = bf16_backend();
    const TensorLayout layout = TensorLayout::plain({copies, 4}, DataType::bf16);
    const auto op = fixture.backend().make(AddDesc{layout});
    Values a, b, want;
    for (std::int64_t i = 0; i < copies; ++i) {
      for (const float v : {1.0F, 1.0F + unit, -1.0F, nan}) a.push_back(v);
      for (const float v : {unit / 2, unit / 2, -unit / 4 * 3, 1.0F}) b.push_back(v);
      for (const float v : {1.0F, 1.0F + 2 * unit, -1.0F - unit, nan}) want.push_back(v);
    }
    const OpOutputs got = run(fixture, *op, {.inputs = {a, b}, .grad_output = b});
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (i % 4 == 3) {
        EXPECT_TRUE(std::isnan(got.output[i])) << i;
      } else {
        EXPECT_EQ(got.output[i], want[i]) << i;
      }
    }
  }
}

TEST_F(Bf16Ops, JoinMapsExactly) {
  for (const ConcatCase& c : concat_cases()) {
    SCOPED_TRACE(c.name);
    BackendFixture plain = BackendFixture::reference(), fixture = bf16_backend();
    ConcatDesc desc;
    for (const Shape& shape : c.inputs) desc.inputs.push_back(TensorLayout::plain(shape));
    const auto reference = plain.backend().make(desc);
    const OpInputs in = rounded_inputs(*reference, 1);
    const OpOutputs want = run(plain, *reference, in);
    for (TensorLayout& input : desc.inputs) input = blocked_or_plain(input.shape);
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->plan().output.type, DataType::bf16);
    const OpOutputs got = run(fixture, *op, in);
    EXPECT_TRUE(same_bits(got.output, want.output));
    for (std::size_t i = 0; i < want.grad_inputs.size(); ++i)
      EXPECT_TRUE(same_bits(got.grad_inputs[i], want.grad_inputs[i]));
  }
}

// These have kernels in fp32 only: their inputs are converted.
TEST_F(Bf16Ops, AveragesAndDropsInFp32) {
  BackendFixture fixture = bf16_backend();
  for (const TensorLayout& layout : bf16_layouts({2, 32, 6, 6})) {
    SCOPED_TRACE(layout.tag);
    const OpDesc descs[] = {AvgPool2dDesc{.input = layout, .window = square_window(2, 2, 0)},
                            AdaptiveAvgPool2dDesc{layout, 1, 1},
                            UpsampleBilinearDesc{layout, 12, 12},
                            DropoutDesc{.input = layout, .p = 0.5}};
    for (const OpDesc& desc : descs) {
      const auto op = fixture.backend().make(desc);
      EXPECT_EQ(op->plan().inputs[0].type, DataType::fp32) << op->plan().description;
      EXPECT_EQ(op->plan().output.type, DataType::fp32) << op->plan().description;
    }
    const auto pool = fixture.backend().make(AdaptiveAvgPool2dDesc{layout, 1, 1});
    EXPECT_EQ(pool->plan().inputs[0].tag, layout.tag);
  }
}

// A micro-batch has twice as many samples, since its maps have half the bytes.
TEST_F(Bf16Ops, FitTwiceTheSamplesInTheCache) {
  BackendFixture fixture = bf16_backend(), fp32 = BackendFixture::onednn();
  EXPECT_EQ(fixture.backend().micro_batch_hint(1 << 10),
            2 * fp32.backend().micro_batch_hint(1 << 10));
}

TEST(Bf16, IsRefusedWithTheReasonWhereTheProcessorLacksIt) {
  const std::string reason = why_no_cpu_bf16();
  if (reason.empty()) GTEST_SKIP() << "CPU devices compute in bf16 here";
  const auto device = make_cpu_device({});
  try {
    make_onednn_backend(*device, DataType::bf16);
    FAIL() << "not refused";
  } catch (const UnavailableError& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST_F(OnShapes, LinearStaysInFp32WhereThatIsWanted) {
  BackendFixture fixture = bf16_backend();
  const auto op = fixture.backend().make(
      LinearDesc{.input = TensorLayout::plain({30, 20}), .out_features = 2, .is_plain = true});
  EXPECT_EQ(op->plan().inputs[0].type, DataType::fp32);
  EXPECT_EQ(op->plan().output.type, DataType::fp32);
}

}  // namespace
}  // namespace ddpbench::ops::testing
